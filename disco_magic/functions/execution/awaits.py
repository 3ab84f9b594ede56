"""A cell that awaits: executed in an event loop of its own, in which an injection never strikes asyncio.

An exception injected while asyncio makes, runs or closes a loop leaves it half made: a loop that is never
closed, a task whose next step is lost, a coroutine that is never awaited. So nothing is injected there:

  1. `Shield.shut` keeps injections out of all of it: making the loop, running it, closing it.
  2. `Shield.opened` lets them in again for one step of user code, from one ``await`` to the next. `Steps`
     does that for the cell's own coroutine, and for every task that it creates.
  3. What strikes in a step just before or after the user's code is thrown into the coroutine, as if it had
     struck at its ``await``: no part of a step is lost.
  4. A task ended by an injection counts as cancelled: a KeyboardInterrupt would stop the loop for the others.

A request to stop cancels the cell's await; its ``finally`` can await too. It does not if a plane call of the
cell raised the interrupt before the loop came to the request: that is cleaned up already. Later requests find
a step that does not end, into which the worker injects; or an await, which a WorkerInterrupt then ends; or a
callback that does not end (``loop.call_soon``), so that the loop notices no requests: then the shield is
given up.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from asyncio import base_events
from collections.abc import Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from disco_magic.callers.sites import awaited_site
from disco_magic.errors import WorkerInterrupt
from disco_magic.threads.locks import new_lock

if TYPE_CHECKING:
    import types
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from disco_magic.callers.sites import Site
    from disco_magic.functions.bridges import Hold

# Asyncio's own coroutines, which `Runner.close` runs as tasks: their steps are not user code.
_CLOSING: Final = tuple(
    function.__code__
    for function in (
        base_events.BaseEventLoop.shutdown_asyncgens,
        base_events.BaseEventLoop.shutdown_default_executor,
    )
)
# At each iteration CPython looks for a pending exception; one look is enough.
_JUMPS: Final = (0, 1)
# A loop that has not noticed a request for this long is in a callback; less than `injection.PAUSES_S`.
_DEAF_S: Final = 0.3


class Holder(Protocol):
    """What injects, only with its mutex held, and while ``lane.shielded`` is 0: a worker."""

    @property
    def lane(self) -> Hold:
        """The hold of the serving thread."""

    @property
    def mutex(self) -> AbstractContextManager[object]:
        """The lock that guards it."""


class Shield:
    """Controls where an exception may be injected into the calling thread."""

    def __init__(self, holder: Holder | None) -> None:
        self._mutex: AbstractContextManager[object] = new_lock() if holder is None else holder.mutex
        self._lane = holder.lane if holder is not None else None
        if self._lane is not None and self._lane.thread_id != threading.get_ident():
            raise WorkerInterrupt("this thread was given up before it began to await")
        self.is_open = False

    def give_up(self) -> None:
        """Let injections strike anywhere; call it with the holder's mutex held."""
        if self._lane is not None:
            self._lane.shielded = 0

    @property
    def is_lost(self) -> bool:
        """Whether the thread was given up: another one has taken over the worker."""
        return self._lane is not None and self._lane.abandoned

    @property
    def is_told(self) -> bool:
        """Whether a plane call has raised the interrupt in the thread."""
        return self._lane is not None and self._lane.told

    def shut(self, function: Callable[..., Any], *given: Any) -> Any:
        """Call `function` where nothing strikes; what was injected earlier strikes before the call."""
        return self._call(function, given, is_open=False)

    def opened(self, function: Callable[..., Any], *given: Any) -> Any:
        """Call `function`, from within `shut`, where injections may strike; none is pending afterwards."""
        return self._call(function, given, is_open=True)

    def begun(self, function: Callable[..., Any], *given: Any) -> Any:
        """Like `opened`, for what would not end if its thread was given up: not after an interrupt."""
        return self._call(function, given, is_open=True, begins=True)

    # No function of our own is called between a ``with`` and its line, because CPython looks for what is
    # pending when one begins. So what strikes in ``finally`` strikes when the shield is back already.
    def _call(
        self, function: Callable[..., Any], given: tuple[Any, ...], *, is_open: bool, begins: bool = False
    ) -> Any:
        lane, mutex = self._lane, self._mutex
        if lane is None:  # there are no injections
            return function(*given)
        before = lane.shielded, self.is_open  # written by this thread only
        try:
            with mutex:
                lane.shielded, self.is_open = 0 if is_open else 1, is_open
                held_back = begins and lane.interrupted is not None
            for _ in _JUMPS:
                pass
            if held_back:
                raise WorkerInterrupt
            return function(*given)
        finally:
            with mutex:
                lane.shielded, self.is_open = before
            for _ in _JUMPS:
                pass


class Steps(Coroutine[Any, Any, Any], Iterator[Any]):
    """A coroutine that injections may strike during its steps, and nowhere else.

    Attributes:
        coroutine: the wrapped coroutine.
        struck: whether its next step has to end with a WorkerInterrupt.
        told: whether a plane call in one of its steps has raised the interrupt.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], shield: Shield, *, is_task: bool = False) -> None:
        self.coroutine = coroutine
        self._shield = shield
        self._is_task = is_task
        self.struck = False
        self.told = False

    def send(self, value: Any) -> Any:
        """Execute a step."""
        return self._step(self.coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        """Execute a step that begins with an error."""
        return self._step(self.coroutine.throw, *error)

    def close(self) -> None:
        """End the coroutine where it stands."""
        self.coroutine.close()

    def __await__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def __getattr__(self, name: str) -> Any:
        # Used by tables of tasks and debuggers: cr_frame, cr_code, __qualname__.
        return getattr(self.coroutine, name)

    def _step(self, step: Callable[..., Any], *given: Any) -> Any:
        if self.struck or self._shield.is_lost:
            self.struck = False
            step, given = self.coroutine.throw, (WorkerInterrupt("interrupted in an await"),)
        was_told = self._shield.is_told
        while True:
            try:
                return self._shield.opened(step, *given)
            except WorkerInterrupt as struck:
                if getattr(self.coroutine, "cr_frame", None) is None:  # it has ended
                    if self._is_task:
                        raise asyncio.CancelledError("interrupted") from struck
                    raise
                step, given = self.coroutine.throw, (struck,)
            finally:
                self.told = self.told or self._shield.is_told > was_told


class Await:
    """A cell that awaits; made and run by the worker's thread.

    Attributes:
        requests: one item for each time that it was asked to end.
    """

    def __init__(self, codes: list[types.CodeType], namespace: dict[str, Any], holder: Holder | None) -> None:
        self.requests: list[None] = []
        self._codes = codes
        self._namespace = namespace
        self._shield = Shield(holder)
        self._steps: Steps | None = None
        # While there is a loop, a function that asks it to end the cell: by WorkerInterrupt, or gently.
        self._wakes: list[Callable[[bool], object]] = []
        # When requests were made that the loop has not noticed yet, on the monotonic clock.
        self._unheard: list[float] = []
        self._values: list[Any] = []
        self._errors: list[BaseException] = []

    # A request is noted first, and looks for an await second; `_main` does it the other way round. So one of
    # them sees the other, however long ago this method was looked up.
    def cancel(self) -> None:
        """Ask the cell to end; from any thread, with the holder's mutex held."""
        self.requests.append(None)
        now, is_open = time.monotonic(), self._shield.is_open
        # The loop's thread may empty the list at any moment.
        if not is_open and any(now - asked >= _DEAF_S for asked in self._unheard[:1]):
            self._shield.give_up()
        for wake in self._wakes[:]:
            self._unheard.append(now)
            wake(len(self.requests) > 1 and not is_open)

    def site(self) -> Site | None:
        """The line of the cell at which it awaits; None while it does not. From any thread."""
        steps = self._steps
        return None if steps is None else awaited_site(steps.coroutine)

    def run(self) -> Any:
        """Execute the cell; return the value of its last expression, or raise what it raises."""
        self._shield.shut(self._in_loop)
        if self._errors:
            raise self._errors.pop()
        return self._values.pop()

    def _in_loop(self) -> None:
        # One event loop per cell: with one kept across cells, the second interrupt of an await fails.
        try:
            with asyncio.Runner() as runner:
                runner.run(self._main())
        finally:
            self._wakes.clear()

    async def _main(self) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        loop = task.get_loop()
        loop.set_task_factory(self._task)
        self._wakes.append(
            lambda hard: loop.call_soon_threadsafe(self._end, task, hard, len(self.requests) == 1)
        )
        if self.requests:
            task.cancel()
        try:
            self._values.append(await self._one_after_the_other())
        except BaseException as error:  # noqa: BLE001 - if they left the task, some would stop the loop
            self._errors.append(error)

    async def _one_after_the_other(self) -> Any:
        value = None
        for code in self._codes:
            # For a coroutine's code, this only makes the coroutine.
            execute = partial(eval, code, self._namespace)
            if code.co_flags & inspect.CO_COROUTINE:
                self._steps = Steps(execute(), self._shield)
                value = await self._steps
            else:
                value = self._shield.opened(execute)
        return value

    def _task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        """Task factory of the loop."""
        if getattr(coroutine, "cr_code", None) not in _CLOSING:
            coroutine = Steps(coroutine, self._shield, is_task=True)
        return asyncio.Task(coroutine, loop=loop, **options)

    def _end(self, cell: asyncio.Task[None], hard: bool, is_first: bool) -> None:  # noqa: FBT001 - a callback's
        """Cancel the cell; if it has ended, the tasks that it has left, for which the loop waits.

        The first request leaves those alone in which a plane call has raised it.
        """
        self._unheard.clear()
        left = asyncio.all_tasks() if cell.done() else ()
        for task, steps in [(cell, self._steps), *((task, task.get_coro()) for task in left)]:
            if isinstance(steps, Steps):
                steps.struck = hard
                if is_first and steps.told:
                    continue
            if task is cell or isinstance(steps, Steps):
                task.cancel()
