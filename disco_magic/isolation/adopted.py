"""Threads that a worker's code starts, and calls that it hands to pools, are the worker's own.

::

    thread.start()       on a worker:  the thread runs in a copy of the caller's context
    pool.submit(f, x)                  the call runs in one, whichever thread of the pool makes it

So what they print, log and display is that worker's and goes to the cell that started them, however late;
`calling_worker` finds it there; and on a GPU they compute where the worker does, after what it has queued and
before what it queues next. A thread that such a thread starts belongs to the same worker. Collectives are
refused there: only the worker's own thread makes them.

While any session runs, `threading.Thread.start` and `ThreadPoolExecutor.submit` are replaced. Threads that we
start ourselves on a worker start in an empty context (`own_threads.py`): they serve all workers.

Such a context refers to its worker weakly: threads of libraries never end, and would keep the registers of a
session that has ended.
"""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import thread as pools
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from disco_magic.callers.current import calling_worker, follow_worker
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.callers.tracebacks import error_text, frames_of
from disco_magic.isolation import own_folders
from disco_magic.isolation.lasting import part_decimals
from disco_magic.isolation.streams import current_writer

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping
    from concurrent.futures import Future
    from contextvars import Context
    from types import ModuleType

    from disco_magic.callers.current import CallingWorker
    from disco_magic.isolation.streams import Writer


def may_write_to(*writers: Writer) -> bool:
    """Whether anything that was started under one of them is still running, or has not begun yet."""
    if not _living:
        return False  # as after most cells
    living = [each for alive in list(_living) if (each := alive()) is not None]
    return any(each.writer is writer for each in living for writer in writers)


# Files whose frames surround what a thread executes.
_AROUND: Final = frozenset({__file__, threading.__file__})
_awaited_at_exit: Final[MutableMapping[threading.Thread, Any]] = vars(pools)["_threads_queues"]
_living: Final[set[ref[_Adopted]]] = set()
_starts_for_all: ContextVar[bool] = ContextVar("disco_magic_starts_for_all", default=False)


def fit_threads(_: ModuleType) -> Callable[[], None]:
    """Let threads and calls of pools belong to the worker that starts them; existing ones keep theirs."""
    return replace_all([_START, _SUBMIT])


class _Adopted:
    """A call that a worker's code wants made in another thread.

    Args:
        function: what is called.
        context: in which it is called.
        worker: the worker. The calling thread computes where that does, in its working directory.

    Attributes:
        writer: takes what the call prints.
    """

    __slots__ = ("__weakref__", "_context", "_function", "_there", "_worker", "writer")

    def __init__(self, function: Callable[..., Any], context: Context, worker: CallingWorker) -> None:
        self._function, self._context, self._there = function, context, worker.place.beside()
        self._worker = ref(worker)
        self.writer = context.get(current_writer)
        # A set's `add`, `discard` and copy are each one step of the interpreter.
        _living.add(ref(self, _living.discard))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make the call. To be called once, in the thread that it is for."""
        worker = self._worker()
        if worker is not None:
            own_folders.join(worker)
        del worker  # the call may outlive it
        with self._there:
            return self._context.run(self._function, *args, **kwargs)

    def complain(self, thread: threading.Thread) -> None:
        """Report the exception that ends a thread where its worker writes: as Python does, but in one piece.

        Python writes line by line, and lines of several workers would mix.
        """
        kind, error, traceback = sys.exc_info()
        if kind is None or error is None:
            return
        while traceback is not None and traceback.tb_frame.f_code.co_filename in _AROUND:
            traceback = traceback.tb_next
        error = BaseException.with_traceback(error, traceback)  # not the error's own method, which may raise
        # A worker's namespace is emptied when its session ends.
        if issubclass(kind, NameError) and any(not each.f_globals for each in frames_of(traceback)[-1:]):
            BaseException.add_note(error, "its session has ended, and with it the names that cells had bound")
        if threading.excepthook is not threading.__excepthook__:  # somebody has installed a hook
            told = threading.ExceptHookArgs((kind, error, traceback, thread))
            try:
                self._context.run(threading.excepthook, told)
            except Exception as failed:  # noqa: BLE001 - reported as Python reports a failing hook
                failed.__suppress_context__ = True
                self._context.run(sys.excepthook, type(failed), failed, failed.__traceback__)
        elif not issubclass(kind, SystemExit):
            self._context.run(_write, f"Exception in thread {thread.name}:\n{error_text(error)}")


def _write(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)


def _adopted(function: Callable[..., Any]) -> _Adopted | None:
    """Return `function` as a call of the calling worker; None outside of workers."""
    me = calling_worker()
    if me is None:
        return None
    context = copy_context()
    context.run(follow_worker, me)
    context.run(part_decimals)
    return _Adopted(function, context, me)


def _start(self: threading.Thread) -> None:
    """Replacement of `threading.Thread.start`."""
    work = None if _starts_for_all.get() else _adopted(self.run)
    if work is None:
        _START.below(self)
        return
    before, whose = vars(self).get("run"), own_folders.whose()

    def run() -> None:
        own_folders.share(whose)
        _put_back(self, before)  # this also breaks the cycle of the thread and this function
        try:
            work()
        except BaseException:  # noqa: BLE001 - as the thread itself does
            work.complain(self)

    self.run = run  # type: ignore[method-assign]  # which is called in the thread
    try:
        _START.below(self)
    except BaseException:  # it cannot be started, or an interrupt struck while its start was awaited
        _put_back(self, before)
        raise


def _put_back(thread: threading.Thread, before: Callable[[], None] | None) -> None:
    if before is None:
        vars(thread).pop("run", None)
    else:
        thread.run = before  # type: ignore[method-assign]


def _submit(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
    """Replacement of `ThreadPoolExecutor.submit`."""
    work = _adopted(fn)
    if work is None:
        future: Future[Any] = _SUBMIT.below(self, fn, *args, **kwargs)
        return future
    # The pool's threads belong to no worker: they also make calls of other workers, and of the notebook.
    token = _starts_for_all.set(True)
    try:
        future = _SUBMIT.below(self, work, *args, **kwargs)
    finally:
        _starts_for_all.reset(token)
    # Daemons, as the worker's own thread is one; but the process would wait for all that are in there.
    for each in tuple(self._threads):
        if each.daemon:
            _awaited_at_exit.pop(each, None)
    return future


_START: Final = Replaced(threading.Thread, "start", _start)
_SUBMIT: Final = Replaced(ThreadPoolExecutor, "submit", _submit)
