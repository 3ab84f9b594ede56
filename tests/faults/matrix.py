"""The matrix: what fails x in which way x where x when, what is left out and why, what is expected.

A cell of the matrix is a `Case`; `matrix` makes them all from the tables here and in the modules beside.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from disco_magic.errors import UsageMistake
from tests.faults.agreed import Allocation, Check, Reading, Result
from tests.faults.kinds import KINDS
from tests.faults.stages import (
    ASKED,
    AwaitingCell,
    Cell,
    ComparedValue,
    ControllersCopy,
    Fetched,
    Finalizer,
    Function,
    ShownValue,
    Stage,
    WorkersCopy,
)
from tests.faults.ways import WAYS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.kinds import Kind

# In the order in which a value meets them.
STAGES: dict[str, type[Stage]] = {
    stage.name: stage
    for stage in (
        ControllersCopy,
        WorkersCopy,
        Function,
        Cell,
        AwaitingCell,
        ShownValue,
        ComparedValue,
        Fetched,
        Finalizer,
        Reading,
        Check,
        Result,
        Allocation,
    )
}


@dataclass(frozen=True)
class Place:
    """Where it fails.

    Attributes:
        failing: ids of the workers; None stands for the controller.
        num_workers: how many there are.
    """

    failing: tuple[int | None, ...]
    num_workers: int = 3

    @property
    def others(self) -> tuple[int, ...]:
        """Workers that do not fail."""
        return tuple(worker for worker in range(self.num_workers) if worker not in self.failing)


PLACES = {
    "worker 0": Place((0,)),
    "worker 2": Place((2,)),
    "all workers": Place((0, 1, 2)),
    "the only worker": Place((0,), num_workers=1),
    "controller": Place((None,)),
}

IDLE, RUNNING, MEETING, SHUTDOWN, EXIT = "idle", "running", "in a collective", "shutdown", "exit"
SYNC, GET, RUN, TWO = "sync waits", "get waits", "run waits", "two wait"
MOMENTS = {
    IDLE: "the workers have nothing else to do, and nobody waits; somebody does afterwards",
    RUNNING: "calls and a cell were sent before it, others after it",
    MEETING: "the other workers wait in a collective, of the same command where it has one",
    SYNC: "the controller waits in `sync_all`",
    GET: "the controller waits in `get_all`",
    RUN: "the controller waits in `run`, for this cell or a later one",
    TWO: "two threads of the controller wait in `sync_all`",
    SHUTDOWN: "`shutdown` waits for it",
    EXIT: "the program is over, and the interpreter's end interrupts what still runs",
}


@dataclass(frozen=True)
class Case:
    """A cell of the matrix."""

    stage: str
    way: str
    place: str
    moment: str
    kind: str = "threads"

    def __str__(self) -> str:
        return f"{self.kind} - {self.stage} - {self.way} - {self.place} - {self.moment}"

    @property
    def what(self) -> type[Stage]:
        """What fails."""
        return STAGES[self.stage]

    @property
    def where(self) -> Place:
        """Where it fails."""
        return PLACES[self.place]

    @property
    def expected(self) -> Expected:
        """Who gets which error."""
        stage, place = self.what, self.where
        nobody = self.moment == EXIT or (self.moment == SHUTDOWN and not stage.has_handle)
        if nobody or stage.is_quiet(self.way):
            return Expected(None)
        if stage.on_controller:
            # What is no Exception is the caller's own business, and passes as it is.
            return Expected(
                UsageMistake if issubclass(_class_of(self.way), Exception) else _class_of(self.way)
            )
        everybody = tuple(range(place.num_workers))
        failed = everybody if stage.spreads else tuple(w for w in place.failing if w is not None)
        meet = stage.joint or (self.moment == MEETING and not stage.separate)
        released = tuple(w for w in everybody if w not in failed) if meet else ()
        return Expected(stage.raises, failed, released)


@dataclass(frozen=True)
class Expected:
    """What has to come of a case.

    Attributes:
        error: class of what the one who waits gets; None: nobody gets anything.
        failed: workers that are told to have failed, before any other.
        released: workers that are told to have been released, after them.
    """

    error: type[BaseException] | None
    failed: tuple[int, ...] = ()
    released: tuple[int, ...] = ()


def _class_of(way: str) -> type[BaseException]:
    return type(WAYS[way]())


def _on_controller(case: Case) -> bool:
    return case.what.on_controller != (case.place == "controller")


def _agrees_with_itself(case: Case) -> bool:
    return case.what is Check and case.where.num_workers == 1


def _nobody_else(case: Case) -> bool:
    return case.moment == MEETING and not case.where.others


def _compares_texts(case: Case) -> bool:
    return case.moment == MEETING and case.what is ComparedValue and case.what.is_quiet(case.way)


def _never_unasked(case: Case) -> bool:
    return case.moment == IDLE and case.what.begins == ASKED


def _one_handle(case: Case) -> bool:
    return case.moment == TWO and case.what.has_handle


def _program_is_over(case: Case) -> bool:
    return case.moment == EXIT and case.what.on_controller


# What no case is made of, and why. The first one that holds is the one that counts.
RULES: dict[str, Callable[[Case], bool]] = {
    "The controller copies arguments and does nothing else of this; workers do all the rest.": _on_controller,
    "The calls of a single worker always fit together.": _agrees_with_itself,
    "Who waits in a collective has not failed: if all fail, nobody waits.": _nobody_else,
    "A value that cannot be pickled is no failure (its text is compared instead): its cell ends, and with it "
    "whatever collective the others wait in.": _compares_texts,
    "A result is copied only for somebody who waits for it.": _never_unasked,
    "A cell, a copy of a result and a refused call have one who gets their error; whoever else waits is "
    "in the column `sync waits`.": _one_handle,
    "At the end of the interpreter the controller copies nothing any more.": _program_is_over,
}


def reason_against(case: Case) -> str | None:
    """Why a combination is left out; None if it is a case."""
    return next((reason for reason, holds in RULES.items() if holds(case)), None)


def combinations(kind: Kind) -> list[Case]:
    """All combinations, also impossible ones, of what this kind of session survives."""
    return [
        Case(name, way, place, moment, kind.name)
        for name, stage in STAGES.items()
        for way, place, moment in product(stage.ways, PLACES, MOMENTS)
        if way in kind.survives
    ]


def matrix(kind: Kind) -> list[Case]:
    """All cases of one kind of session."""
    return [case for case in combinations(kind) if reason_against(case) is None]


def all_cases() -> list[Case]:
    """The cases of all kinds of sessions."""
    return [case for kind in KINDS.values() for case in matrix(kind)]
