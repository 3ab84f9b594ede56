"""Questions that workers ask the user: one worker at a time, with its number in the prompt.

::

    worker 2: input("name? ") --+
    worker 0: debugger's prompt -+-> ASKERS, first come first served --> "[2] name? " -> the front end's input

A debugger stays first in the queue from where it stops until its worker continues; then the others follow. So
all workers get to a collective that the user steps over on each of them.
"""

from __future__ import annotations

import builtins
import threading
from _thread import allocate_lock
from collections import deque
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

from disco_magic.errors import UsageMistake, WorkerInterrupt
from disco_magic.notebook.debugging.questions import GETPASS, INPUT, answer_to
from disco_magic.notebook.output.footer import FOOTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.functions.context import WorkerContext
    from disco_magic.notebook.debugging.questions import Way
    from disco_magic.notebook.output.footer import Question

T = TypeVar("T")

_LOOK_UP_S: Final = 0.1

attended: Final[ContextVar[bool]] = ContextVar("disco_attended", default=True)
"""False in a cell that is not waited for: IPython's prompt may have the keyboard when it asks."""


class _Asker:
    """A thread that asks, or waits in the queue to ask."""

    __slots__ = ("_owner", "asked", "comes", "thread")

    def __init__(self, worker: WorkerContext) -> None:
        self.thread = threading.get_ident()
        # A bare lock, because an interrupt in the Python code of an Event could leave it locked.
        self.comes = allocate_lock()
        self.comes.acquire()
        self.asked: Question | None = None
        # Only the worker's own thread can lose the worker to another thread.
        self._owner = worker if worker.thread == self.thread else None

    @property
    def is_void(self) -> bool:
        """Whether its thread was given up, and another thread serves the worker."""
        return self._owner is not None and self._owner.thread != self.thread


class Askers:
    """The queue of threads that ask: first come, first served.

    An injected interrupt may be raised anywhere in here. So the queue is changed only by single calls of C
    code, which are atomic in CPython, and a waiting thread polls: notifying it only makes that faster.
    """

    def __init__(self) -> None:
        self._queue: deque[_Asker] = deque()

    def take(self, worker: WorkerContext, act: Callable[[], T]) -> T:
        """Return ``act()`` when this worker is the first; at once if it is already."""
        if self.has(threading.get_ident()):
            return act()
        asker = _Asker(worker)
        try:
            self._queue.append(asker)
            self._await_turn(asker)
            with FOOTER.aside() as asker.asked:
                return act()
        finally:
            if asker in self._queue:  # not if an interrupt was faster, or the thread was given up
                self._queue.remove(asker)
            self._tell_next()

    def _await_turn(self, asker: _Asker) -> None:
        while not self._is_first(asker):
            asker.comes.acquire(timeout=_LOOK_UP_S)

    def has(self, thread: int) -> bool:
        """Whether that thread is the first."""
        first = self._first()
        return first is not None and first.thread == thread

    def _first(self) -> _Asker | None:
        try:
            return self._queue[0]
        except IndexError:
            return None

    def _is_first(self, asker: _Asker) -> bool:
        if asker.is_void:
            raise WorkerInterrupt("this thread was given up while it waited to ask")
        first = self._first()
        if first is not None and first.is_void:  # its thread may be stuck for ever
            with suppress(ValueError):  # another waiting thread has removed it
                self._queue.remove(first)
            if first.asked is not None:
                FOOTER.withdraw(first.asked)
        return first is asker

    def _tell_next(self) -> None:
        first = self._first()
        if first is not None:
            with suppress(RuntimeError):  # notified before, and about to wake
                first.comes.release()


ASKERS: Final = Askers()


def ask(worker: WorkerContext, prompt: str, way: Way = INPUT, what: str | None = None) -> str:
    """The user's answer to `prompt`, which begins with the worker's number."""
    question = what or f"{way.name}({prompt!r})"
    what = what or way.what
    check_attended(what)
    worker.asking = question
    try:
        return ASKERS.take(
            worker, lambda: answer_to(worker, what, lambda: way.read(f"[{worker.id}] {prompt}"), way.kernel)
        )
    finally:
        worker.asking = ""


def check_attended(what: str) -> None:
    """Refuse `what`, which asks the user, in a cell that is not waited for."""
    if not attended.get():
        raise UsageMistake(
            f"{what} in a cell that was sent with --nowait: nobody waits there for the question; leave out "
            "--nowait, or take the call out of the cell"
        )


def input_for(worker: WorkerContext) -> Callable[[object], str]:
    """The `input` function of one worker's cells."""

    def worker_input(prompt: object = "", /) -> str:
        """Like `input`, after workers that asked before; the prompt begins with the worker's number."""
        return ask(worker, str(prompt))

    return worker_input


class answered:  # noqa: N801 - a context manager, as `contextlib.suppress`
    """Send a cell in this block and, if it is `waited_for`, wait for it: its workers may ask the user."""

    def __init__(self, *, waited_for: bool) -> None:
        self._waited_for = waited_for
        self._replaced: dict[Way, Any] = {}

    def __enter__(self) -> None:
        self._token = attended.set(self._waited_for)
        if not self._waited_for:
            return
        try:
            _guard(INPUT.kernel)
            for way in (INPUT, GETPASS):
                way.stand_in(ask, self._replaced)
        except BaseException:  # an interrupt
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        for way, before in self._replaced.items():
            way.put_back(before)
        attended.reset(self._token)


def _guard(kernel: Any) -> None:
    """Let one worker at a time call the kernel's own functions too, as long as it lives.

    A module that a plain cell imported may have kept one of them (``from getpass import getpass``). All of
    them call one method, and two threads in it end the process, because they share a socket.
    """
    if kernel is builtins:
        return  # there is none: the function is Python's own
    request = getattr(kernel, "_input_request", None)
    if request is None or isinstance(request, _OneAtATime):
        return
    kernel._input_request = _OneAtATime(kernel, request)  # noqa: SLF001 - there is no other place that all pass


class _OneAtATime:
    """Wraps the kernel's method that sends a question: one worker at a time."""

    def __init__(self, kernel: Any, request: Callable[..., str]) -> None:
        self._kernel, self._request = kernel, request

    def __call__(self, prompt: str, *args: Any, **kwargs: Any) -> str:
        from disco_magic.functions.context import calling_context  # loads NumPy

        worker = calling_context()
        if worker is None or ASKERS.has(threading.get_ident()):
            return self._request(prompt, *args, **kwargs)
        check_attended("a question")
        said = f"[{worker.id}] {prompt}"
        return ASKERS.take(
            worker,
            lambda: answer_to(worker, "a cell", lambda: self._request(said, *args, **kwargs), self._kernel),
        )
