"""Messages in a process group of PyTorch's, which may be asked for before they are waited for.

What sends is done at once: a worker's `send` makes a copy. What receives is something to wait for, and takes
its message then: PyTorch's programs ask first for what they get, and send afterwards. Those of one source and
tag are taken in the order in which they were asked for.
"""

from __future__ import annotations

import importlib
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Any

from disco_magic.errors import UsageMistake
from disco_magic.functions.torch_memory import flat, written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.functions.context import WorkerContext


def done(value: Any) -> Any:
    """Something under way that is over, with its tensors."""
    future = importlib.import_module("torch").futures.Future()
    future.set_result(value)
    return _parts()._create_work_from_future(future)  # noqa: SLF001 - nothing public makes one


def _parts() -> Any:
    return importlib.import_module("torch._C._distributed_c10d")


class _Later:
    """What is done when it is waited for, once.

    Args:
        finish: does it.
        tensors: what is filled then.
    """

    def __init__(self, finish: Callable[[], None], tensors: Sequence[Any]) -> None:
        super().__init__()
        self._finish: Callable[[], None] | None = finish
        self._tensors = tensors

    def wait(self, _timeout: Any = None) -> bool:
        """Until it is done; its limit is the cell's."""
        if self._finish is not None:
            self._finish()
            self._finish = None
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        """Whether somebody has waited for it."""
        return self._finish is None

    is_success = is_completed

    def result(self) -> Sequence[Any]:
        """The tensors."""
        return self._tensors

    def get_future(self) -> Any:
        """Of the tensors; waits."""
        self.wait()
        return done(self._tensors).get_future()


@cache
def _later_class() -> Any:
    return type("Later", (_Later, _parts().Work), {"__module__": __name__})


class Messages:
    """What a group does between two of its members."""

    _name: str
    _members: tuple[int, ...]
    _worker: Callable[[], WorkerContext]

    def _begin_messages(self) -> None:
        # By receiver, source and tag.
        self._wanted: dict[tuple[int, int, int | str], deque[Any]] = {}
        self._batches: dict[int, list[Any]] = {}

    def _tag(self, tag: int) -> int | str:
        """What no message of another group bears; of all workers' as it is, so that `recv` takes it, too."""
        everybody = len(self._members) == self._worker().num_workers
        return tag if everybody else f"{tag} in group {self._name[:6]}"

    def send(self, tensors: Any, rank: int, tag: int = 0) -> Any:
        """To one member; a copy."""
        for tensor in tensors:
            self._worker().send(flat(tensor, bits=True), self._members[rank], tag=self._tag(tag))
        return done(tensors)

    def recv(self, tensors: Any, rank: int, tag: int = 0) -> Any:
        """Of one member, when it is waited for; of that many elements."""
        me = self._worker().id
        key = me, self._members[rank], self._tag(tag)
        work: Any = _later_class()(lambda: self._receive(key, work), tensors)
        self._wanted.setdefault(key, deque()).append(work)
        if me in self._batches:
            self._batches[me].append(work)
        return work

    def _receive(self, key: tuple[int, int, int | str], last: Any) -> None:
        """Take what was asked for of that source up to the `last`."""
        _, source, tag = key
        wanted = self._wanted[key]
        while last in wanted:
            work = wanted.popleft()
            for tensor in work.result():
                with written(tensor, bits=True) as target:
                    self._worker().recv(source, target, tag=tag)
            work._finish = None  # noqa: SLF001 - of this file

    def recv_anysource(self, *_given: Any) -> Any:
        """Not here.

        Raises:
            UsageMistake: always.
        """
        raise UsageMistake("recv: workers receive from a worker that they name: recv(tensor, src=...)")

    def _start_coalescing(self, _device: Any) -> None:
        self._batches[self._worker().id] = []

    def _end_coalescing(self, _device: Any) -> Any:
        batch = self._batches.pop(self._worker().id, [])

        def finish() -> None:
            for work in batch:
                work.wait()

        return _later_class()(finish, [tensor for work in batch for tensor in work.result()])
