"""What a program finds in `sys`: its own arguments on each worker, the folder it lies in.

Arguments are told by who asks: workers come to a program that waits in their queues at times of their own,
beside the notebook and other programs. Where modules are imported from, and what was imported, is the
process's.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from disco_magic.functions import sources
from disco_magic.functions.context import calling_worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.functions.cells import Program
    from disco_magic.functions.context import WorkerContext


@dataclass(eq=False, slots=True)
class Execution:
    """One worker's execution of a program.

    Attributes:
        program: what it executes.
        argv: its arguments, which it may change.
    """

    program: Program
    argv: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.argv = list(self.program.argv)


_executions: Final[dict[WorkerContext, Execution]] = {}
_added: Final[list[str]] = []  # to `sys.path`
_lock: Final = threading.Lock()


class _Arguments(list[str]):
    """`sys.argv` while workers execute programs: to these what is theirs, to everybody else `process`."""

    def __init__(self, process: list[str]) -> None:
        super().__init__(process)  # for who looks into its memory
        self.process = process

    def mine(self) -> list[str]:
        """That of whoever asks."""
        me = calling_worker()
        execution = None if me is None else _executions.get(me)
        return self.process if execution is None else execution.argv

    def __radd__(self, other: list[str]) -> list[str]:
        return other + self.mine()

    def __iadd__(self, other: Any) -> Self:  # type: ignore[override, misc]  # it stays what it is
        self.mine().extend(other)
        return self

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        return list, (list(self.mine()),)


def _asking(method: Callable[..., Any]) -> Callable[..., Any]:
    def ask(self: _Arguments, *args: Any, **options: Any) -> Any:
        return method(self.mine(), *args, **options)

    return ask


_COMPARING: Final = "__contains__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __len__ __repr__ count index"
_TAKING: Final = "__getitem__ __iter__ __reversed__ __add__ __mul__ __rmul__ copy"
_CHANGING: Final = "__setitem__ __delitem__ append extend insert remove pop clear sort reverse"
for _name in f"{_COMPARING} {_TAKING} {_CHANGING}".split():
    setattr(_Arguments, _name, _asking(getattr(list, _name)))


def begin(worker: WorkerContext, execution: Execution) -> None:
    """`worker` begins a program; `end` has to follow, also if this is interrupted."""
    _executions[worker] = execution
    _fit()


def end(worker: WorkerContext, execution: Execution | None = None) -> None:
    """It has ended `execution`, or None: its thread was given up, in whatever it executes."""
    if execution is None or _executions.get(worker) is execution:  # else its successor's
        _executions.pop(worker, None)
    _fit()


def _fit() -> None:
    """Let `sys` have what the programs that are executed now need, and nothing more.

    Lists are replaced and not changed: another thread may be going through `sys.path`, for an import.
    """
    with _lock:
        wanted = {execution.program.folder for execution in list(_executions.values())}
        for folder in wanted.difference(_added):
            _added.append(folder)
            sys.path = [folder, *sys.path]
        for folder in set(_added) - wanted:
            _added.remove(folder)
            paths = list(sys.path)
            if folder in paths:
                paths.remove(folder)
            sys.path = paths
            sources.note(folder)
        argv = sys.argv
        if wanted and not isinstance(argv, _Arguments):
            sys.argv = _Arguments(argv)
        elif not wanted and isinstance(argv, _Arguments):
            sys.argv = argv.process
