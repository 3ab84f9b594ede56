"""Named registers: ``session["x"]`` is a reference to what cells have bound to that name."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import ItemsView, KeysView, ValuesView
from typing import TYPE_CHECKING, Any

from disco_magic.core.messages import DropNames, LoadName, StoreName
from disco_magic.errors import UnknownName, UsageMistake, is_told
from disco_magic.phrases import no_register
from disco_magic.session.calls import Calls
from disco_magic.session.dref import DRef, are_references

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from disco_magic.session.arguments import Life

__tracebackhide__ = is_told


class NamedRegisters(Calls):
    """Mixin of `Session`. Looking at names asks no worker, but an unknown name waits for running cells."""

    def names(self) -> tuple[str, ...]:
        """Return the names that at least one worker has bound, as far as the controller knows.

        Example:
            >>> session.run("weight, _private = 1, 2").errors
            {}
            >>> "weight" in session.names(), "_private" in session.names()
            (True, False)
        """
        return tuple(self.ledger.names.known())

    def _there(self) -> dict[str, None]:
        if self.closed:
            self._refuse()
        return self.ledger.names.known()

    def __iter__(self) -> Iterator[str]:
        return iter(self._there())

    def __len__(self) -> int:
        return len(self._there())

    def __bool__(self) -> bool:
        """Always true: a session without registers is still a session."""
        return True

    __reversed__ = None  # names have no order, and Python would fall back to session[3]

    def __contains__(self, name: object) -> bool:
        return name in self._there()

    def keys(self) -> KeysView[str]:
        """The names, as a live view, like a dict's. ``dict(session)`` makes references to all of them.

        Raises:
            SessionClosed: when the view is used after the session was closed.

        Example:
            >>> session.run("a, b = 1, 2").errors
            {}
            >>> {"a", "b"} <= session.keys()
            True
        """
        return KeysView(self)

    def values(self) -> ValuesView[DRef]:
        """References to all named registers, as a view; each costs a command when it is reached.

        Example:
            >>> with disco.ThreadedSession(2) as fresh:
            ...     fresh.put("step", 7)
            ...     print([ref.get_all() for ref in fresh.values()])
            [[7, 7]]
        """
        return _References(self)

    def items(self) -> ItemsView[str, DRef]:
        """Names and references, as `keys` and `values`.

        Example:
            >>> session.put("step", 7)
            >>> {name: ref.get_all() for name, ref in session.items() if name.startswith("st")}
            {'step': [7, 7, 7, 7]}
        """
        return _Items(self)

    def __getitem__(self, name: str) -> DRef:
        """Return a reference to the value that `name` has now, on every worker that has it.

        A later cell that binds the name again does not change this reference; `set` on it binds the name,
        too. While cells are running, looking up an unknown name waits for them as `sync_all` does, which also
        says what is raised if that takes longer than the session's `timeout`, or is interrupted.

        Raises:
            UnknownName: no worker has it.
            UsageMistake: it is no text.

        Example:
            >>> session.put("step", 7)
            >>> session["step"].get_all()
            [7, 7, 7, 7]
            >>> session["stop"]
            Traceback (most recent call last):
            ...
            disco_magic.errors.UnknownName: register 'stop' is not defined on any worker; did you mean 'step'?
        """
        if self.closed:
            self._refuse()
        if not isinstance(name, str):
            raise UsageMistake(
                f"session[{name!r}]: a register has a name, session['a']; its value on worker 2 is "
                "session['a'].get(2)"
            )
        if name not in self.ledger.names.known() and self.ledger.expecting:
            self._sync(self._everybody, None, f"session[{name!r}]")
        known = self.ledger.names.known()
        if name not in known:
            raise UnknownName(no_register(str(name), known, self.former_names))
        dref = self.issue(lambda seq, dest, kills: LoadName(seq, dest, name, kills))
        dref.bound_as = name
        return dref

    def __setitem__(self, name: str, dref: DRef | Mapping[str, DRef]) -> None:
        """Bind `name` to the value of a reference on every worker, as a cell's assignment would.

        A mapping of references, such as `load_safetensors` returns, becomes a dict of their values.

        Raises:
            UsageMistake: `name` is not a variable name, or the value is no DRef and no mapping of some (`put`
                takes values).

        Example:
            >>> session["shard"] = session.scatter(np.arange(4))
            >>> session.run("int(shard)").values
            [0, 1, 2, 3]
        """
        self.bind(name, dref)

    def bind(
        self, name: str, dref: DRef | Mapping[str, DRef], workers: tuple[int, ...] | None = None
    ) -> None:
        """Do ``session[name] = dref`` on these workers; None: on all. Others keep what they have."""
        _check_name(name)
        if not isinstance(dref, DRef) and not are_references(dref):
            raise UsageMistake(
                f"session[{name!r}] takes a DRef, got {type(dref).__name__}; "
                f"session.put({name!r}, value) takes values"
            )
        life = self.life
        one = self.joined(dref)  # held until the name is bound: its register would be freed
        self._bind(name, self.own(one), workers, life)

    def joined(self, references: DRef | Mapping[str, DRef]) -> DRef:
        """A reference to a dict of the values of these references; a single one is returned as it is."""
        if isinstance(references, DRef):
            return references
        return self.call_packed(_dict_of, tuple(references), *references.values())

    def _bind(self, name: str, register: int, workers: tuple[int, ...] | None, life: Life) -> None:
        def bind(seq: int, kills: tuple[int, ...]) -> StoreName:
            # Under the lock, as all that changes the ledger.
            self.ledger.names.bind(seq, name, workers or self._everybody)
            return StoreName(seq, name, register, kills, workers)

        self.send(bind, workers, life)

    def set_register(self, dref: DRef, worker: int, value: Any) -> None:
        """Replace a register's value on one worker by a copy of `value`; `DRef.set` calls this.

        If the reference was looked up by name, the name is bound to the copy: such a reference has a register
        of its own, which nothing else reads.
        """
        life = self.life
        super().set_register(dref, worker, value)
        if name := getattr(dref, "bound_as", ""):
            self._bind(name, self.own(dref), self.check_workers((worker,)), life)

    def __delitem__(self, name: str) -> None:
        """Unbind a name on every worker, after everything sent so far, even if a running cell binds it.

        Raises:
            UnknownName: no worker has it.

        Example:
            >>> session.put("old", 1)
            >>> del session["old"]
            >>> "old" in session
            False
        """
        if self.closed:
            self._refuse()
        if name not in self.ledger.names.known() and name not in (present := self.names_now()):
            raise UnknownName(no_register(str(name), present, self.former_names))

        def drop(seq: int, kills: tuple[int, ...]) -> DropNames:
            self.ledger.names.drop(seq, name, self._everybody)
            return DropNames(seq, (name,), kills)

        self.send(drop)

    def names_now(self) -> tuple[str, ...]:
        """Return `names` and those that a running cell has bound, which the ledger does not know yet."""
        if not self.ledger.expecting:
            return self.names()
        held = self._launcher.look(numbered=False, sample=0)
        return tuple(dict.fromkeys([*self.names(), *(label for each in held for label, _ in each)]))

    def put(self, name: str, value: Any, *, workers: Sequence[int] | None = None) -> None:
        """Bind `name` to a copy of `value` on every worker, or on these; the others keep what they have.

        Raises:
            UsageMistake: `name` is not a variable name, there is no such worker, or the value cannot be
                copied. Nothing was sent.

        Example:
            >>> session.put("lr", 0.1, workers=[0, 1])
            >>> session.run("'lr' in globals()").values
            [True, True, False, False]
        """
        _check_name(name)
        if isinstance(value, DRef) or are_references(value):
            raise UsageMistake(
                f"put copies values, and {type(value).__name__} refers to some that are on the workers: "
                f"session[{name!r}] = ... binds the name to them"
            )
        chosen = None if workers is None else self.check_workers(workers)
        self.bind(name, self.store_copy(value, chosen), chosen)


class _Items(ItemsView[str, DRef]):
    """Passes over names that another thread drops meanwhile."""

    def __init__(self, session: NamedRegisters) -> None:
        super().__init__(session)
        self._session = session

    def __iter__(self) -> Iterator[tuple[str, DRef]]:
        for name in self._session:
            try:
                reference = self._session[name]
            except UnknownName:
                continue
            yield name, reference


class _References(ValuesView[DRef]):
    def __init__(self, session: NamedRegisters) -> None:
        super().__init__(session)
        self._items = _Items(session)

    def __iter__(self) -> Iterator[DRef]:
        return (reference for _, reference in self._items)


def _dict_of(names: tuple[str, ...], *values: Any) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise UsageMistake(f"{name!r} is not a variable name")
    spelled = unicodedata.normalize("NFKC", name)
    if spelled != name:  # code could not refer to it
        raise UsageMistake(f"{name!r} is {spelled!r} wherever code names it, as Python has it; use that")
    if name.startswith("_"):
        raise UsageMistake(
            f"{name!r} begins with an underscore: such names are private to a worker and are not registers"
        )
