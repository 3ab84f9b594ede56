"""Running a program on all workers of a plane, and looking at what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from disco_magic.core.interfaces import Plane, Seat

    Program = Callable[[Plane, Seat], Any]


class Run(Protocol):
    """What a harness has to offer: a program on all workers at once, as one command."""

    def __call__(self, plane: Plane, program: Program, scope: int) -> list[Any]:
        """Call ``program(plane, seat)`` on every worker, each in the thread that makes its plane calls.

        ``seat`` is the worker's seat among all workers in `scope`. When the program has ended on a worker,
        the harness calls ``plane.leave(worker, scope, failure)``, with a `Failure` if it raised. It must end
        a run that hangs. Returns per worker what the program returned, or the exception it raised.
        """


def group(seat: Seat, members: tuple[int, ...]) -> Seat:
    """The same worker's seat in the communicator `members`."""
    return seat._replace(members=members)


def values(outcomes: list[Any]) -> list[Any]:
    """`outcomes`, none of which may be an exception."""
    for worker, outcome in enumerate(outcomes):
        if isinstance(outcome, BaseException):
            text = f"worker {worker} raised {type(outcome).__name__}: {outcome}"
            raise AssertionError(text) from outcome  # noqa: TRY004 - a check failed, not a type
    return outcomes


def errors(outcomes: list[Any], kind: type[BaseException]) -> list[Any]:
    """`outcomes`, each of which has to be an exception object of its own of class `kind`."""
    for worker, outcome in enumerate(outcomes):
        expect(isinstance(outcome, kind), f"worker {worker}: expected {kind.__name__}, got {outcome!r}")
    expect(len({id(outcome) for outcome in outcomes}) == len(outcomes), "workers share an exception object")
    return outcomes


def expect(condition: object, text: str) -> None:
    """AssertionError with `text` unless `condition` holds."""
    if not condition:
        raise AssertionError(text)


def same(got: Any, expected: ArrayLike, text: str = "") -> None:
    """Same shape, dtype and bits (NaN equal to NaN)."""
    wanted, found = np.asarray(expected), np.asarray(got)
    expect(found.dtype == wanted.dtype, f"{text}: dtype {found.dtype}, expected {wanted.dtype}")
    np.testing.assert_array_equal(found, wanted, err_msg=text, strict=True)


def bits(array: ArrayLike) -> bytes:
    """The bytes of an array, to compare members with each other."""
    return np.asarray(array).tobytes()
