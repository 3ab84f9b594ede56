"""Calls and values: the part of a session that all its other methods build on.

A call on its way to the registers::

    call_packed(f, x) -> [lock: dead references drained, seq, register, command put on every queue] -> DRef
                                        | no reply
    worker: get -> serve -> f(x) outside any lock -> register        (whatever is not ordinary: interpreter)
"""

from __future__ import annotations

import os
import sys
from itertools import islice
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, cast

from disco_magic.core.device import Device
from disco_magic.core.messages import Answer, Call, Fetch, Store
from disco_magic.errors import UsageMistake, WorkerError, is_told
from disco_magic.functions.builtins import CopyingCall
from disco_magic.functions.cell_copies import ATOMS
from disco_magic.functions.copies import copy_of, is_shared
from disco_magic.functions.places import HOST_PLACE
from disco_magic.functions.registry import find_func
from disco_magic.isolation.own_classes import is_of_workers, only_receiver
from disco_magic.isolation.own_functions import is_of_cells
from disco_magic.session.arguments import name_of, no_destination
from disco_magic.session.dref import DPackedFunc, DRef
from disco_magic.session.queues import KEPT
from disco_magic.session.syncing import Syncing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.core.messages import Ordinary
    from disco_magic.errors import Failure
    from disco_magic.session.arguments import Life, Limit

__tracebackhide__ = is_told


# Our files whose functions make calls for the user.
_NAMES: Final = "checking comparing dref host_arrays modules names parameters placement verbs"
_VERBS: Final = frozenset(f"{os.path.dirname(__file__)}{os.sep}{name}.py" for name in _NAMES.split(" "))


class Calls(Syncing):
    """The calls that `Session`, its array verbs and its named registers share."""

    device: str
    devices: tuple[int, ...]

    def call_packed(
        self,
        function: DRef | str | Callable[..., Any],
        /,
        *args: Any,
        workers: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> DRef:
        """Call a function on the workers, without waiting for the result.

        Only if a worker is `max_outstanding` commands behind does this wait, until it has caught up.

        Args:
            function: a reference to a register that holds one, the name of a registered function, or any
                callable (which all workers then share).
            *args: a DRef stands for each worker's own value. Numbers, strings, bytes, dtypes and functions
                are passed as they are; arrays, containers and other objects are copied once here and once
                per worker.
            workers: ids of the workers that make the call; None: all. On others the register stays undefined.
            **kwargs: as `args`.

        Returns:
            The register of the result. If the function raises on a worker, the register is poisoned there:
            commands that use it inherit the error instead of running, and the next `sync_*`, `get` or end
            of a cell raises it.

        Raises:
            UsageMistake: unknown function, an argument that cannot be copied, a DRef of another session.
                Nothing was sent.
            WorkerLost: a worker that had to catch up is gone.

        Example:
            >>> x = session.scatter(np.arange(8.0).reshape(4, 2))
            >>> y = session.call_packed(np.multiply, x, 10)
            >>> y.get(3)
            array([60., 70.])
        """
        life = self.life
        target: Any
        if type(function) is FunctionType:  # true for all that `is_of_cells` accepts, in half the time
            target = function
            is_own = is_of_workers(function.__module__) or hasattr(function, "__wrapped__")
        else:
            target = self._target(function)
            is_own = is_of_cells(target)
        # `args` stays bound until the command is sent: a DRef in it that nothing else holds would otherwise
        # be dropped here, and its kill would travel with, and before, the command that reads it.
        operands = args
        refs: tuple[int, ...] = ()
        kwnames: tuple[str, ...] = ()
        if kwargs or is_own or (args and not ATOMS.issuperset(map(type, args))):
            target, operands, refs, kwnames = self._pack(function, target, args, kwargs)
        if kwnames or workers is not None:
            chosen = None if workers is None else self.check_workers(workers)
            made = self.issue(
                lambda seq, dest, kills: Call(seq, dest, target, operands, refs, kwnames, kills, chosen),
                chosen,
                life,
            )
        else:
            made = self.call_all(target, operands, refs, life)
        frame: Any = sys._getframe(1)  # noqa: SLF001 - the same as inspect.currentframe, without a frame of its own
        while frame.f_code.co_filename in _VERBS:
            frame = frame.f_back
        self.sent_from[made.seq & KEPT] = made.seq, frame.f_code, frame.f_lasti
        return made

    def call_all(  # noqa: C901, PLR0912 - see there
        self, target: Any, operands: tuple[Any, ...], refs: tuple[int, ...], life: Life
    ) -> DRef:
        """Send an ordinary, checked call: `issue` inlined, because every command pays for its overhead."""
        if self.ledger.seq >= self._pace_at:
            self.keep_pace()
        locked = self._locked
        with locked.lock:
            if locked.taken:
                locked.refuse()
            locked.taken = True
            try:
                if self.closed or life is not self.life:
                    self._refuse()
                ledger = self.ledger
                ledger.seq = seq = ledger.seq + 1
                # The reference first: a KeyboardInterrupt after this drops it, and its register with it.
                # Its register is not asked for again: see `DRef.__getattr__`.
                deaths, dying = self._dead.qsize(), self._dying
                kills: tuple[int, ...] = ()
                if dying:  # left by an interrupted command: retired, but their kills are on no queue yet
                    deaths = 2
                if deaths == 1:  # the dying register is reused at once: no account changes
                    dying += islice(self._deaths, 1)  # loses none: see `_drain`
                    register = dying[0]
                    kills = (register,)
                else:
                    if deaths:
                        kills = self._drain()
                    register = ledger.new_register()
                dref = DRef(self, register)  # type: ignore[arg-type]
                command: Ordinary = (seq, register, target, operands, refs, kills)
                rest = iter(self._sends)
                if deaths:
                    del dying[:]
                try:
                    for send in rest:
                        send(command)
                except BaseException:
                    while True:
                        try:
                            for send in rest:
                                send(command)
                        except BaseException:  # noqa: BLE001, S112 - as in `Queues._send`
                            continue
                        break
                    raise
            finally:
                locked.taken = False
        return dref

    def _places(self) -> list[Device]:
        """The devices that hold the workers' arrays."""
        kind = self.device.partition(":")[0]
        return [Device(kind, index) for index in self.devices] or [HOST_PLACE.device]

    def get_global_func(self, name: str) -> DPackedFunc:
        """Return a registered function, by name, as a register on every worker.

        Raises:
            UnknownName: no such function; near misses are in the message. Nothing was sent.

        Example:
            >>> session.get_global_func("runtime.disco.worker_id")().get_all()
            [0, 1, 2, 3]
        """
        find_func(name)
        dref = self.issue(lambda seq, dest, kills: Call(seq, dest, find_func, (name,), (), (), kills))
        return dref.as_function(name)

    def store(self, value: Any, only: tuple[int, ...] | None = None) -> DRef:
        """Put a value that nothing else holds into a new register; with `only`, other workers get None."""
        return self.issue(lambda seq, dest, kills: Store(seq, dest, value, only, kills))

    def store_copy(self, value: Any, only: tuple[int, ...] | None = None) -> DRef:
        """Put a copy of a value into a new register; see `store`."""
        return self.store(copy_of(value, only_receiver(self.id, only)), only)

    def set_register(self, dref: DRef, worker: int, value: Any) -> None:
        """Replace a register's value on one worker by a copy of `value`; `DRef.set` calls this."""
        life, register = self.life, self.own(dref)
        chosen = self.check_workers((worker,))
        mine = copy_of(value, only_receiver(self.id, chosen))
        self.send(lambda seq, kills: Store(seq, register, mine, chosen, kills, chosen), chosen, life)

    def fetch(
        self, dref: DRef, workers: Sequence[int], timeout: float | Limit | None = None
    ) -> dict[int, Any]:
        """Return copies of a register's value on `workers`; `DRef.get` calls this.

        Raises:
            WorkerError: the value's command failed, or any other command since errors were last raised.
        """
        life, register = self.life, self.own(dref)
        chosen = self.check_workers(workers)
        seen = self._glance(register, chosen, timeout, life)
        if seen is not None:
            self._raise_others_than()
            return seen
        ended = self.ask(lambda seq, kills: Fetch(seq, register, kills, chosen), chosen, timeout, "get", life)
        answers = {worker: cast("Answer", reply) for worker, reply in ended.replies.items()}
        failed = [answer.failure for answer in answers.values() if answer.failure is not None]
        self._raise_others_than(*failed)
        return {worker: answers[worker].value for worker in chosen}

    def _raise_others_than(self, *own: Failure) -> None:
        """Raise what has failed; if the value has no failure of its `own`, say that the value is there."""
        try:
            self.raise_failures(own)
        except WorkerError as error:
            if not own:
                error.add_note("the value that was asked for is there, and the next get returns it")
            raise

    def on_worker_0(
        self, function: Any, dref: DRef, host: Any, timeout: float | None, *, into_register: bool
    ) -> None:
        """Call ``function(destination, source)`` on worker 0 with a register and a host array, and wait."""
        life, register = self.life, self.own(dref)
        args, refs = ((register, host), (0,)) if into_register else ((host, register), (1,))
        first = (0,)
        limit = self.patience(timeout)  # checked before anything is sent
        self.keep_pace(limit, "a copy")
        done = self.issue(
            lambda seq, dest, kills: Call(seq, dest, function, args, refs, (), kills, first), first, life
        )
        # Not a sync: this call's failure may have been raised already, or be raised in another thread.
        self.fetch(done, first, limit)

    def check_destination(self, dst: DRef | None) -> None:
        """Raise, before anything is sent, if `dst` is neither None nor a reference of this session.

        A host array would be copied to each worker, and only the copies would be written.

        Raises:
            UsageMistake, SessionClosed: as `own`.
        """
        if dst is not None and not isinstance(dst, DRef):
            raise no_destination(self.id, dst)
        if dst is not None:
            self.own(dst)

    def _target(self, function: Any) -> Any:
        if isinstance(function, DRef):
            return self.own(function)
        if isinstance(function, str):
            return find_func(function)
        if callable(function):
            return function
        raise UsageMistake(
            f"call_packed: {type(function).__name__} cannot be called; expected a DRef of a function, "
            "a registered name or a callable"
        )

    def _pack(
        self, function: Any, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, tuple[Any, ...], tuple[int, ...], tuple[str, ...]]:
        values = [*args, *kwargs.values()]
        refs, copied = [], []
        for position, value in enumerate(values):
            if isinstance(value, DRef):
                values[position] = self.own(value)
                refs.append(position)
            elif not is_shared(value):
                values[position] = copy_of(value)
                copied.append(position)
            elif is_of_cells(value):
                copied.append(position)
        if not copied and not is_of_cells(target):
            return target, tuple(values), tuple(refs), tuple(kwargs)
        refs = [position + 1 for position in refs]
        if type(target) is int:
            refs.insert(0, 0)
        return CopyingCall(name_of(function), tuple(copied)), (target, *values), tuple(refs), tuple(kwargs)
