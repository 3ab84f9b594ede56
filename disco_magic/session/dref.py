"""References: the controller's handles of registers.

Dropping the last reference frees the register on every worker. The finalizer does one `SimpleQueue.put` and
nothing else, because it may run at any bytecode of any thread, even while that thread has the session's lock.
The next command carries the ids to the workers.

The finalizer is a weak reference's callback that is itself C code, not a `__del__`: Python prints and ignores
a Ctrl-C that strikes in a `__del__`, and the register would never be freed.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeGuard, cast

from disco_magic.errors import UsageMistake, is_told
from disco_magic.threads.patience import wait_until

if TYPE_CHECKING:
    from disco_magic.core.snapshot import Row
    from disco_magic.session.session import Session

__tracebackhide__ = is_told


# A delay that people still perceive as immediate.
_MOMENT_S: Final = 0.1
# What arrays have, and a reference could have, but not as one value.
_DESCRIBED: Final = ("shape", "dtype", "ndim", "size", "nbytes", "device")


class Drop(weakref.ref["DRef"]):
    """A session's weak reference to a `DRef`: when the `DRef` dies, it is put into the queue of the dead."""

    __slots__ = ("register",)
    register: int


def GIVEN_UP(_: Drop) -> None:  # noqa: N802 - a constant; a function, because every life is one
    """The life of a reference that gave its register to another one."""


class DRef:
    """A register on every worker of a session. Made by the session, never directly.

    Attributes:
        session: the session it belongs to.
        register: the register's id, the same on all workers.
        life: identifies the session's life; each restart begins another one.
        seq: the command that fills the register; until a worker has executed it, the register still holds
            what an earlier reference left there.
        bound_as: the name, for ``session["x"]``; other references do not have this attribute.
        sent_to: the workers that the command was sent to, if not to all; else there is no such attribute.

    Example:
        >>> ref = session.call_packed(lambda: disco.worker().id ** 2)
        >>> ref.get(3), ref.get_all()
        (9, [0, 1, 4, 9])
        >>> ref.set(0, 100)
        >>> session.call_packed(lambda x: x + 1, ref).get_all()
        [101, 2, 5, 10]
    """

    __slots__ = ("__weakref__", "bound_as", "life", "register", "sent_to", "seq", "session")
    bound_as: str
    sent_to: tuple[int, ...]

    def __init__(self, session: Session, register: int) -> None:
        self.session = session
        self.register = register
        self.life = life = session.life
        self.seq = session.ledger.seq  # references are made under the lock, when their command has its number
        drop = Drop(self, life)
        drop.register = register
        session.drops[register] = drop  # replaces that of the reference that had the register before

    @property
    def is_alive(self) -> bool:
        """Whether the register still belongs to this reference.

        For a garbage cycle, the collector calls the callbacks of weak references, `Drop`, before any
        finalizer, which may still use the reference or bring it back to life.
        """
        drop = self.session.drops.get(self.register)
        return drop is not None and drop() is self

    def get(self, worker: int = 0, timeout: float | None = None) -> Any:
        """Return a copy of the value on `worker`, after everything sent before has been executed.

        Args:
            worker: its id.
            timeout: seconds to wait at most; None: the session's `timeout`.

        Raises:
            WorkerError: the command that should have made the value failed, or another one before this.
            SyncTimeout, SessionClosed: as their names say.
        """
        return self.session.fetch(self, (worker,), timeout)[worker]

    def get_all(self, timeout: float | None = None) -> list[Any]:
        """Return copies of all workers' values, in worker order; waits and raises as `get`."""
        everybody = tuple(range(self.session.num_workers))
        values = self.session.fetch(self, everybody, timeout)
        return [values[worker] for worker in everybody]

    def set(self, worker: int, value: Any) -> None:
        """Replace the value on one worker by a copy of `value`; for ``session["x"]`` that of `x`, too.

        Executed after what was sent before, and not waited for. Other references to the old value keep it.

        Raises:
            UsageMistake: there is no such worker, or the value cannot be copied. Nothing was sent.
            SessionClosed: the session is closed.
        """
        self.session.set_register(self, worker, value)

    def debug_get_from_remote(self, worker: int, timeout: float | None = None) -> Any:
        """Disco's name for `get`."""
        return self.get(worker, timeout)

    def debug_copy_from(self, worker: int, value: Any) -> None:
        """Disco's name for `set`."""
        self.set(worker, value)

    def info(self) -> Row:
        """Return type, shape, dtype, device, bytes and statistics on a sample, per worker.

        Shows the current state: None where there is no value yet, displayed as "not there yet" until the
        worker has executed the command that makes it. Moves no data. Waits at most a tenth of a second for
        workers about to reach it: most commands take some microseconds.

        Example:
            >>> session.scatter(np.arange(8.0).reshape(4, 2)).info()
            ≠ #...  [0] float64 2 · cpu · 16 B · min 0 mean 0.5 max 1
            ...
        """
        row = self.session.picture(self)

        def is_there() -> bool:
            nonlocal row
            row = self.session.picture(self)
            return not row.coming

        if row.coming:
            wait_until(is_there, _MOMENT_S)
        return row

    def as_function(self, name: str) -> DPackedFunc:
        """Return a callable reference to the same register, which this reference gives up."""
        return self.session.succeed(self, partial(DPackedFunc, name=name))

    def __repr__(self) -> str:
        session = self.session
        state = ", closed" if session.closed else ""
        place = f"{session.num_workers} workers of session {session.id}{state}"
        return f"<{type(self).__name__} #{self.register} on {place}>"

    def _refuse(self, *_: object) -> NoReturn:
        raise UsageMistake(
            "a DRef cannot be copied or pickled, nor travel inside a list or dict; "
            "pass it as an argument of its own, or its value with .get(worker)"
        )

    __copy__ = __deepcopy__ = __reduce_ex__ = _refuse

    def _has_no_value(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(_reason(type(self)))

    # NumPy calls the first one, also in `np.sum`; without it, NumPy would make an array of the reference.
    __array__ = _has_no_value
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _has_no_value
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _has_no_value
    __rmatmul__ = __neg__ = __pos__ = __abs__ = __invert__ = __divmod__ = __rdivmod__ = _has_no_value
    __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _has_no_value
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = _has_no_value
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __float__ = __complex__ = __round__ = _has_no_value
    # Python iterates, and looks for what is `in` it, by asking for x[0]. Equality stays identity.
    __getitem__ = __setitem__ = _has_no_value

    def __getattr__(self, name: str) -> NoReturn:
        # Called only for missing names; but with it, CPython 3.11 finds those that are there in 100 ns, not
        # in 10: a call reads each once. `hasattr` probes mostly names with underscores: no reason for those.
        about = "" if name.startswith("_") else f": {_reason(type(self), f'lambda x: x.{name}()')}"
        if name in _DESCRIBED:
            about = f": {_reason(type(self))}; ref.info() shows its {name} on every worker"
        text = f"{type(self).__name__!r} object has no attribute {name!r}{about}"
        raise AttributeError(text, name=name, obj=self)


def _reason(kind: type[DRef], function: str = "function") -> str:
    return (
        f"a {kind.__name__} refers to values that are on the workers; ref.get(worker) gives a copy of one, "
        f"session.call_packed({function}, ref) computes with them there"
    )


def are_references(value: object) -> TypeGuard[Mapping[str, DRef]]:
    """Whether a value is a mapping of references, by names; an empty one is none."""
    if not issubclass(type(value), Mapping) or not value:
        return False
    value = cast("Mapping[object, object]", value)
    return all(isinstance(name, str) and isinstance(each, DRef) for name, each in value.items())


class DPackedFunc(DRef):
    """A register that holds a function; calling it calls it on every worker."""

    __slots__ = ("_reached", "name")

    def __init__(self, session: Session, register: int, name: str) -> None:
        super().__init__(session, register)
        self.name = name
        # What a call reads, in one attribute: see `__getattr__`. True while the reference is alive.
        self._reached = session, register, session.life

    def __call__(self, /, *args: Any, **kwargs: Any) -> DRef:
        """Call ``session.call_packed(self, *args)``: asynchronous, returns the result's reference."""
        session, register, life = self._reached
        drop = session.drops.get(register)  # `is_alive` inlined
        if kwargs or args or life is not session.life or drop is None or drop() is not self:
            return session.call_packed(self, *args, **kwargs)
        return session.call_all(register, (), (), life)


class CellValues(DRef):
    """A register that holds the values of a cell's last expression."""

    __slots__ = ("label",)

    def __init__(self, session: Session, register: int, label: str) -> None:
        super().__init__(session, register)
        self.label = label
