"""Checks of a plane's results against NumPy, for all verbs, dtypes, layouts and numbers of workers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.testing.stage import bits, expect, same, values

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from disco_magic.core.interfaces import Plane
    from disco_magic.core.seat import Seat
    from disco_magic.testing.stage import Run

    Array = NDArray[Any]

DTYPES = tuple("?bBhHiIlLqQefdgFDG")
UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "avg": np.add,
}


def _frozen(array: Array) -> Array:
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "contiguous": lambda a: a,
    "fortran": np.asfortranarray,
    "every second": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "read-only": _frozen,
}


def sample(worker: int, shape: tuple[int, ...], dtype: str) -> Array:
    """Numbers that differ between workers and are small enough for float16."""
    rng = np.random.default_rng(1000 + worker)
    if dtype == "?":
        return rng.integers(0, 2, shape).astype(dtype)
    array = rng.integers(0, 100, shape).astype(dtype)
    if np.dtype(dtype).kind in "fc":
        array = (array / 16).astype(dtype)
    if np.dtype(dtype).kind == "c":
        array += (rng.integers(0, 100, shape) * 1j).astype(dtype)
    return array


def reference(arrays: list[Array], op: str) -> Array:
    """The reduction by definition: in rank order, float16 through float32, avg of integers in float64."""
    dtype = arrays[0].dtype
    wide: np.dtype[Any] = dtype
    if dtype == np.float16:
        wide = np.dtype(np.float32)
    elif op == "avg" and dtype.kind in "biu":
        wide = np.dtype(np.float64)
    with np.errstate(all="ignore"):
        total = functools.reduce(UFUNCS[op], [array.astype(wide) for array in arrays])
        if op == "avg":
            total = total / wide.type(len(arrays))
        return np.asarray(total).astype(wide if op == "avg" and dtype.kind in "biu" else dtype)


def reductions_agree_with_numpy(plane: Plane, size: int, run: Run) -> None:
    """allreduce, reduce and reduce_scatter give NumPy's numbers for every dtype and operation."""
    shape = (2 * size, 3)

    def program(plane: Plane, seat: Seat) -> list[Any]:
        got = []
        for dtype in DTYPES:
            x = sample(seat.worker, shape, dtype)
            for op in UFUNCS:
                got.append(plane.allreduce(seat, x, op, None))
                got.append(plane.reduce(seat, x, op, size - 1, None))
                got.append(plane.reduce_scatter(seat, x, op, 0, None, None))
        return got

    outcomes = values(run(plane, program, 1))
    for worker, got in enumerate(outcomes):
        results = iter(got)
        for dtype in DTYPES:
            arrays = [sample(w, shape, dtype) for w in range(size)]
            for op in UFUNCS:
                expected, text = reference(arrays, op), f"{op} of {np.dtype(dtype)} on worker {worker}"
                same(next(results), expected, f"allreduce {text}")
                reduced = next(results)
                if worker == size - 1:
                    same(reduced, expected, f"reduce {text}")
                else:
                    expect(reduced is None, f"reduce gave worker {worker}, no root, {reduced!r}")
                same(next(results), np.split(expected, size)[worker], f"reduce_scatter {text}")


def movements_agree_with_numpy(plane: Plane, size: int, run: Run) -> None:
    """allgather, gather, broadcast, scatter and alltoall put every byte where it belongs, for every dtype."""
    dtypes = (*DTYPES, "M8[s]", "m8[us]", "U4", "S3", "f4,i2")
    shape = (2 * size, size)

    def make(worker: int, dtype: str) -> Array:
        return sample(worker, shape, dtype if dtype in DTYPES else "i").astype(dtype)

    def program(plane: Plane, seat: Seat) -> list[Any]:
        got, root = [], size - 1
        for dtype in dtypes:
            x = make(seat.worker, dtype)
            rooted = x if seat.rank == root else None
            for axis in (0, 1, -2):
                got.append(plane.allgather(seat, x, axis, None))
                got.append(plane.gather(seat, x, root, axis, None))
                got.append(plane.scatter(seat, rooted, root, axis, None, None))
                got.append(plane.alltoall(seat, x, axis, None, None))
            got.append(plane.broadcast(seat, rooted, root, None))
        return got

    for worker, got in enumerate(values(run(plane, program, 1))):
        results = iter(got)
        for dtype in dtypes:
            arrays = [make(w, dtype) for w in range(size)]
            for axis in (0, 1, -2):
                text = f"of {np.dtype(dtype)} along axis {axis} on worker {worker}"
                same(next(results), np.concatenate(arrays, axis), f"allgather {text}")
                gathered = next(results)
                if worker == size - 1:
                    same(gathered, np.concatenate(arrays, axis), f"gather {text}")
                else:
                    expect(gathered is None, f"gather gave worker {worker}, no root, {gathered!r}")
                same(next(results), np.split(arrays[-1], size, axis)[worker], f"scatter {text}")
                parts = [np.split(array, size, axis)[worker] for array in arrays]
                same(next(results), np.concatenate(parts, axis), f"alltoall {text}")
            same(next(results), arrays[-1], f"broadcast of {np.dtype(dtype)} on worker {worker}")


def layouts_do_not_matter(plane: Plane, size: int, run: Run) -> None:
    """Inputs and `out` of any strides give the same numbers."""
    shape = (2 * size, 4)

    def program(plane: Plane, seat: Seat) -> list[Any]:
        got = []
        for layout in LAYOUTS.values():
            x = layout(sample(seat.worker, shape, "f"))
            got.append(plane.allreduce(seat, x, "sum", None))
            got.append(plane.alltoall(seat, x, 0, None, None))
            out = np.asfortranarray(np.zeros(shape, "f"))
            expect(plane.allreduce(seat, x, "sum", out) is out, "out is not what is returned")
            got.append(out)
            wide = np.zeros((shape[0] * size, 2 * shape[1]), "f")
            got.append(plane.allgather(seat, x, 0, wide[:, ::2]))
        return got

    arrays = [sample(worker, shape, "f") for worker in range(size)]
    total = reference(arrays, "sum")
    for worker, got in enumerate(values(run(plane, program, 1))):
        exchanged = np.concatenate([np.split(array, size)[worker] for array in arrays])
        expected = [total, exchanged, total, np.concatenate(arrays)] * len(LAYOUTS)
        for result, wanted in zip(got, expected, strict=True):
            same(result, wanted, f"worker {worker}")


def scalars_empty_and_zero_dimensional(plane: Plane, size: int, run: Run) -> None:
    """Numbers give NumPy scalars; 0-d arrays, empty arrays and lists give arrays of the same shape."""

    def program(plane: Plane, seat: Seat) -> list[Any]:
        first = seat.rank == 0
        return [
            plane.allreduce(seat, 2, "sum", None),
            plane.allreduce(seat, np.float32(2), "prod", None),
            plane.allreduce(seat, np.array(2.0), "sum", None),
            plane.allreduce(seat, [1, 2], "max", None),
            plane.allreduce(seat, np.empty((0, 3)), "sum", None),
            plane.broadcast(seat, 7.5 if first else None, 0, None),
            plane.allgather(seat, seat.rank, 0, None),
            plane.allgather(seat, np.arange(seat.rank), 0, None),
            plane.alltoall(seat, np.empty((0, 2), "i4"), 0, None, None),
        ]

    ramp = np.concatenate([np.arange(rank) for rank in range(size)])
    for got in values(run(plane, program, 1)):
        expect(type(got[0]) is np.int64, f"a number gave {type(got[0]).__name__}")
        expect(type(got[1]) is np.float32, f"a NumPy scalar gave {type(got[1]).__name__}")
        expect(type(got[2]) is np.ndarray, f"a 0-d array gave {type(got[2]).__name__}")
        expect(type(got[5]) is np.float64, f"a broadcast number gave {type(got[5]).__name__}")
        wanted: list[Any] = [2 * size, np.float32(2**size), 2.0 * size, [1, 2], np.empty((0, 3)), 7.5]
        wanted += [np.arange(size), ramp, np.empty((0, 2), "i4")]
        for result, expected in zip(got, wanted, strict=True):
            same(result, expected)


def members_get_the_same_bits(plane: Plane, size: int, run: Run) -> None:
    """All members get the floating point sum in rank order, for small and for large arrays."""
    lengths = (1, 7, 1000, 300_001)

    def make(worker: int, length: int) -> Array:
        return np.random.default_rng(worker).standard_normal(length).astype("f4")

    def program(plane: Plane, seat: Seat) -> list[Any]:
        return [plane.allreduce(seat, make(seat.worker, length), "sum", None) for length in lengths]

    outcomes = values(run(plane, program, 1))
    for index, length in enumerate(lengths):
        expected = bits(functools.reduce(np.add, [make(worker, length) for worker in range(size)]))
        for worker, got in enumerate(outcomes):
            expect(bits(got[index]) == expected, f"worker {worker} got other bits for length {length}")


def results_belong_to_the_caller(plane: Plane, size: int, run: Run) -> None:
    """A result shares no memory with any member's input."""

    def program(plane: Plane, seat: Seat) -> list[Any]:
        x = np.arange(4.0 * size)
        given = [x.copy() for _ in range(4)]
        got = [
            plane.allreduce(seat, given[0], "sum", None),
            plane.broadcast(seat, given[1], 0, None),
            plane.allgather(seat, given[2], 0, None),
            plane.alltoall(seat, given[3], 0, None, None),
        ]
        plane.barrier(seat)
        for array in got:
            array[...] = -1.0
        plane.barrier(seat)
        return [bits(array) == bits(x) for array in given]

    for worker, untouched in enumerate(values(run(plane, program, 1))):
        expect(all(untouched), f"writing to a result changed an input of worker {worker}: {untouched}")


def in_place_works(plane: Plane, size: int, run: Run) -> None:
    """`out` may be the input, or overlap it: the result is the same as with separate arrays."""

    def program(plane: Plane, seat: Seat) -> list[Any]:
        got = []
        for length in (12 * size, 30_000 * size):
            x = np.arange(length) + seat.worker
            got.append(plane.allreduce(seat, x, "sum", x))
            buffer = np.arange(length + 1) + seat.worker
            got.append(plane.allreduce(seat, buffer[:-1], "sum", buffer[1:]))
            y = np.arange(length) + seat.worker
            got.append(plane.alltoall(seat, y, 0, None, y))
            z = np.arange(length) + seat.worker
            got.append(plane.allgather(seat, z[: length // size], 0, z))
        return got

    for rank, got in enumerate(values(run(plane, program, 1))):
        results = iter(got)
        for length in (12 * size, 30_000 * size):
            ramps = [np.arange(length) + worker for worker in range(size)]
            same(next(results), sum(ramps), "in place")
            same(next(results), sum(ramps), "overlapping")
            same(next(results), np.concatenate([np.split(ramp, size)[rank] for ramp in ramps]), "alltoall")
            same(next(results), np.concatenate([ramp[: length // size] for ramp in ramps]), "allgather")


def the_giver_s_library_is_told(plane: Plane, size: int, run: Run) -> None:
    """`library_of` returns the `Seat.library` of the giver of the last broadcast, scatter or message."""
    last = size - 1

    def program(plane: Plane, seat: Seat) -> list[str]:
        mine, x = seat._replace(library=f"library {seat.worker}"), np.ones(size)
        plane.send(mine, x, (seat.worker + 1) % size)
        calls: list[Callable[[], Any]] = [
            lambda: plane.broadcast(mine, x if seat.worker == last else None, last, None),
            lambda: plane.scatter(mine, x, 0, 0, None, None),
            lambda: plane.recv(mine, (seat.worker - 1) % size, None),
            lambda: plane.broadcast(seat, 1.0, 0, None),
        ]
        return [(call(), plane.library_of(seat.worker))[1] for call in calls]

    for worker, told in enumerate(values(run(plane, program, 1))):
        expected = [f"library {last}", "library 0", f"library {(worker - 1) % size}", ""]
        expect(told == expected, f"worker {worker} was told {told}, not {expected}")


VALUE_CHECKS = (
    reductions_agree_with_numpy,
    movements_agree_with_numpy,
    layouts_do_not_matter,
    scalars_empty_and_zero_dimensional,
    members_get_the_same_bits,
    results_belong_to_the_caller,
    in_place_works,
    the_giver_s_library_is_told,
)
