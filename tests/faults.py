"""The fault matrix: objects that fail at one stage in one way, and what a session has to make of it.

A stage is a moment at which the runtime touches a user's object; a way is what the object does then. For
other kinds of session: give the test module another fixture, and ways of failing that only they survive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from disco_magic.errors import CellError, UsageMistake, WorkerError

WAYS = {
    "exception": RuntimeError("the object failed"),
    "system exit": SystemExit(3),
    "keyboard interrupt": KeyboardInterrupt("the object failed"),
    "error without words": type("Mute", (Exception,), {"__str__": lambda self: 1 / 0})(),
    "stop iteration": StopIteration("the object failed"),
    "memory": MemoryError(),
}


@dataclass
class Faulty:
    """Fails at `stage`, and behaves at all others.

    Attributes:
        stage: the moment.
        error: what is raised then.
    """

    stage: str
    error: BaseException
    fuse: list[int] = field(default_factory=lambda: [0])

    def _at(self, stage: str) -> None:
        if stage == self.stage:
            raise self.error

    def __call__(self) -> Faulty:
        self._at("call")
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Faulty:
        # The controller copies once, each worker once more.
        self._at("copy on the controller" if self.fuse == [0] else "copy on a worker")
        return Faulty(self.stage, self.error, [self.fuse[0] + 1])

    def __repr__(self) -> str:
        self._at("show")
        return "Faulty"

    def __reduce__(self) -> tuple[Any, ...]:
        self._at("pickle")
        return Faulty, (self.stage, self.error, self.fuse)

    def __del__(self) -> None:
        self._at("drop")


def call(session: Any, thing: Faulty) -> None:
    """The object is called."""
    session.call_packed(thing)
    session.sync_all()


def copy_on_the_controller(session: Any, thing: Faulty) -> None:
    """The object is an argument."""
    session.call_packed(type, thing)
    session.sync_all()


def copy_on_a_worker(session: Any, thing: Faulty) -> None:
    """Every worker makes a copy of its own of the argument."""
    session.call_packed(type, thing)
    session.sync_all()


def show(session: Any, thing: Faulty) -> None:
    """The object is the last value of a cell."""
    session["thing"] = session.call_packed(lambda: thing)
    session.run("thing")


STAGES = {
    "call": (call, WorkerError),
    "copy on the controller": (copy_on_the_controller, UsageMistake),
    "copy on a worker": (copy_on_a_worker, WorkerError),
    "show": (show, CellError),
}


@dataclass(frozen=True)
class Fault:
    """A cell of the matrix.

    Attributes:
        stage, way: its row and column.
        expected: class of what the session raises.
    """

    stage: str
    way: str
    expected: type[BaseException]

    def __str__(self) -> str:
        return f"{self.stage} - {self.way}"

    @property
    def error(self) -> BaseException:
        """What the object raises."""
        return WAYS[self.way]

    def provoke(self, session: Any) -> None:
        """Let an object fail in `session`."""
        STAGES[self.stage][0](session, Faulty(self.stage, self.error))


def matrix() -> list[Fault]:
    """All faults with what is expected of a session that shares its process with its workers."""
    faults = []
    for stage, (_, expected) in STAGES.items():
        for way, error in WAYS.items():
            # On the controller, what is no Exception is the caller's own business.
            passes = stage == "copy on the controller" and not isinstance(error, Exception)
            faults.append(Fault(stage, way, type(error) if passes else expected))
    return faults
