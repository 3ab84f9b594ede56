"""Run a program on all workers of a plane, and check its outcomes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike

    from disco_magic.core.interfaces import Plane
    from disco_magic.core.seat import Seat

    Program = Callable[[Plane, Seat], Any]


class Run(Protocol):
    """The contract of a harness: it runs a program on all workers at once, as one command."""

    def __call__(self, plane: Plane, program: Program, scope: int) -> list[Any]:
        """Call ``program(plane, seat)`` on every worker, each in the thread that makes its plane calls.

        ``seat`` is the worker's seat among all workers in `scope`. When the program has ended on a worker,
        the harness calls ``plane.leave(worker, scope, failure)``, with a `Failure` if it raised. The harness
        has to end a run that hangs. Returns for each worker what the program returned, or its exception.
        """


@contextmanager
def told(check: Callable[..., None], size: int | None = None) -> Iterator[None]:
    """In the ``with`` block, add to an AssertionError which check has failed, and what that one says."""
    try:
        yield
    except AssertionError as error:
        of = "" if size is None else f", {size} workers"
        error.add_note(f"{check.__name__}{of}: {check.__doc__}")
        raise


def group(seat: Seat, members: tuple[int, ...]) -> Seat:
    """The seat of the same worker in the communicator `members`."""
    return seat._replace(members=members)


def values(outcomes: list[Any]) -> list[Any]:
    """Return `outcomes`; raise AssertionError if one is an exception."""
    for worker, outcome in enumerate(outcomes):
        if isinstance(outcome, BaseException):
            text = f"worker {worker} raised {type(outcome).__name__}: {outcome}"
            raise AssertionError(text) from outcome  # noqa: TRY004 - a check failed, not a type
    return outcomes


def errors(outcomes: list[Any], kind: type[BaseException]) -> list[Any]:
    """Return `outcomes`, which have to be different exception objects of class `kind`."""
    for worker, outcome in enumerate(outcomes):
        expect(isinstance(outcome, kind), f"worker {worker}: expected {kind.__name__}, got {outcome!r}")
    expect(len({id(outcome) for outcome in outcomes}) == len(outcomes), "workers share an exception object")
    return outcomes


def expect(condition: object, text: str) -> None:
    """Raise AssertionError with `text` unless `condition` holds."""
    if not condition:
        raise AssertionError(text)


def same(got: Any, expected: ArrayLike, text: str = "") -> None:
    """AssertionError unless shape, dtype and values are the same (NaN equals NaN)."""
    wanted, found = np.asarray(expected), np.asarray(got)
    expect(found.dtype == wanted.dtype, f"{text}: dtype {found.dtype}, expected {wanted.dtype}")
    np.testing.assert_array_equal(found, wanted, err_msg=text, strict=True)


def bits(array: ArrayLike) -> bytes:
    """The bytes of an array, to compare members with each other."""
    return np.asarray(array).tobytes()
