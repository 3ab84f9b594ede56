"""What fails: objects of a user's that the runtime touches, each at one moment of its life."""

from __future__ import annotations

import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar

import disco_magic as disco
from disco_magic.callers.current import calling_worker
from disco_magic.errors import CellError, UsageMistake, WorkerError
from tests.faults.ways import WAYS

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.session.dref import DRef
    from disco_magic.session.session import Session

DEADLINE_S = 30.0

SENT, ASKED, AT_ONCE = "sent", "asked", "at once"


def here() -> int | None:
    """Id of the worker that the calling code runs on; None: the controller."""
    worker = calling_worker()
    return None if worker is None else worker.id


class Stage:
    """Fails on some workers at its moment, and behaves otherwise.

    Args:
        error: what it raises.
        failing: workers on which it fails; None stands for the controller.
        gate: where it stops before it fails.
        meets: whether the other workers wait in a collective meanwhile.

    Attributes:
        name, title: its row in the matrix, and in words.
        told: who gets which error, in words.
        ways: how it can fail.
        on_controller: it is the controller that fails.
        begins: when it fails: soon after it was `SENT`, when somebody has `ASKED` for it, or `AT_ONCE`
            in the call that would send it.
        has_handle: somebody waits for this one, and for nothing else.
        joint: all workers make a collective call of it.
        spreads: all of them fail if one does.
        lasts: it fails when its session ends, if it did not before.
        separate: what comes after it is still executed, collectives too.
        raises: what whoever waits for it gets.
        wraps: an error that is an `Exception` comes as the cause of one of this class.
        ref: the register of what was called, if it was a call.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    told: ClassVar[str]
    ways: ClassVar[tuple[str, ...]] = tuple(WAYS)
    on_controller: ClassVar[bool] = False
    begins: ClassVar[str] = SENT
    has_handle: ClassVar[bool] = False
    joint: ClassVar[bool] = False
    spreads: ClassVar[bool] = False
    lasts: ClassVar[bool] = False
    separate: ClassVar[bool] = False
    raises: ClassVar[type[BaseException]] = WorkerError
    wraps: ClassVar[type[BaseException] | None] = None

    def __init__(
        self,
        error: BaseException,
        failing: tuple[int | None, ...],
        gate: Callable[[object], object],
        *,
        meets: bool = False,
    ) -> None:
        self.error = error
        self.failing = failing
        self.gate = gate
        self.meets = meets
        self.fired: SimpleQueue[float] = SimpleQueue()
        self.ref: DRef | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Stage:
        return self

    @classmethod
    def is_quiet(cls, way: str) -> bool:
        """Whether nobody is told of it."""
        return False

    def prepare(self, session: Session) -> None:
        """Send what has to be there before."""

    def send(self, session: Session) -> Callable[[], object] | None:
        """Send what fails; what waits for it and for nothing else, if there is such a thing."""
        self.ref = session.call_packed(self.work)
        return None

    def work(self) -> Any:
        """What a worker is asked to do."""
        self.meet()
        self.fail()
        return here()

    def meet(self) -> None:
        """Wait for those who will fail."""
        if self.meets and here() not in self.failing:
            disco.worker().allreduce(1)

    def fail(self) -> None:
        """Fail, if it is to fail here."""
        if here() in self.failing:
            self.gate(here())
            self.fired.put(time.monotonic())
            self.strike()

    def strike(self) -> None:
        """What goes wrong."""
        raise self.error

    def is_told(self, seen: BaseException, is_error: Callable[[object, object], bool]) -> bool:
        """Whether `seen` tells of what has failed here."""
        if self.wraps is not None and isinstance(self.error, Exception):
            return type(seen) is self.wraps and is_error(seen.__cause__, self.error)
        return is_error(seen, self.error)


class Function(Stage):
    name = "function"
    title = "a function that `call_packed` calls"
    told = "`WorkerError` from the next wait; the result has no value on these workers"


class Cell(Stage):
    name = "cell"
    title = "the code of a cell"
    told = "`CellError` from the cell's own handle"
    has_handle = True
    raises = CellError
    source: ClassVar[str] = "stage.work()"

    def prepare(self, session: Session) -> None:
        session["stage"] = session.call_packed(self.give)

    def give(self) -> Stage:
        return self

    def send(self, session: Session) -> Callable[[], object]:
        pending = session.run_nowait(self.source)
        return lambda: pending.wait(DEADLINE_S)


class AwaitingCell(Cell):
    name = "awaiting cell"
    title = "a coroutine that a cell awaits"
    told = (
        "`CellError` from the cell's own handle; Python makes a `StopIteration` the cause of a `RuntimeError`"
    )
    source = "await stage.awaited()"

    async def awaited(self) -> None:
        await self.rest()
        self.work()

    async def rest(self) -> None:
        """What is awaited before it fails."""

    def is_told(self, seen: BaseException, is_error: Callable[[object, object], bool]) -> bool:
        if isinstance(self.error, StopIteration):  # Python lets none out of a coroutine
            seen = seen.__cause__ or seen
        return is_error(seen, self.error)


class ShownValue(Cell):
    name = "repr"
    title = "`__repr__` of a cell's last value"
    told = "`CellError` from the cell's own handle"
    source = "stage.meet()\nstage"

    def __repr__(self) -> str:
        self.fail()
        return "ShownValue"

    def __reduce__(self) -> tuple[Any, ...]:
        return str, ("a value that is no error",)


class ComparedValue(Cell):
    name = "pickle"
    title = "`__reduce__` of a cell's last value, which is compared between the workers"
    told = "as of a cell; nobody if it is an `Exception`: the value is compared by its text"
    source = "stage.meet()\nstage"

    @classmethod
    def is_quiet(cls, way: str) -> bool:
        return isinstance(WAYS[way](), Exception)

    def __reduce__(self) -> tuple[Any, ...]:
        self.fail()
        return str, ("a value that is no error",)


class ControllersCopy(Stage):
    name = "copy on the controller"
    title = "`__deepcopy__` of an argument, on the controller"
    told = "the caller: an `Exception` as the cause of a `UsageMistake`, all else as it is; nothing was sent"
    on_controller = True
    begins = AT_ONCE
    has_handle = True
    separate = True
    wraps = UsageMistake

    def __deepcopy__(self, memo: dict[int, Any]) -> Stage:
        self.fail()
        return self

    def send(self, session: Session) -> Callable[[], object]:
        return lambda: session.call_packed(type, self)


class WorkersCopy(Stage):
    name = "copy on a worker"
    title = "`__deepcopy__` of an argument, of which every worker takes a copy"
    told = "as of a function; an `Exception` is the cause of a `UsageMistake`"
    wraps = UsageMistake

    def __deepcopy__(self, memo: dict[int, Any]) -> Stage:
        self.fail()
        return self

    def send(self, session: Session) -> None:
        self.ref = session.call_packed(self.take, self)

    def take(self, _: Stage) -> Any:
        self.meet()
        return here()


class Fetched(Stage):
    name = "copy of a result"
    title = "`__deepcopy__` of a value that `get` asks for"
    told = "`WorkerError` from `get`; an `Exception` is the cause of a `UsageMistake`; the register stays"
    begins = ASKED
    has_handle = True
    separate = True
    wraps = UsageMistake

    def __deepcopy__(self, memo: dict[int, Any]) -> Stage:
        self.fail()
        return self

    def prepare(self, session: Session) -> None:
        self.ref = session.call_packed(self.give)

    def give(self) -> Stage:
        return self

    def send(self, session: Session) -> Callable[[], object]:
        ref = self.ref
        assert ref is not None
        return lambda: ref.get_all(DEADLINE_S)


class Finalizer(Stage):
    name = "finalizer"
    title = "`__del__` of a register's value"
    told = "nobody: Python prints what a finalizer raises, and goes on"
    lasts = True
    separate = True

    class Value:
        def __init__(self, stage: Finalizer) -> None:
            self.stage = stage

        def __del__(self) -> None:
            self.stage.fail()

    @classmethod
    def is_quiet(cls, way: str) -> bool:
        return True

    def prepare(self, session: Session) -> None:
        self.ref = session.call_packed(self.Value, self)

    def send(self, session: Session) -> None:
        self.ref = None  # the next command takes the register's end along
        self.ref = session.call_packed(self.work)

    def work(self) -> Any:
        if self.meets:
            disco.worker().allreduce(1)
        return here()
