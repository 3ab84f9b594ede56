"""The state that all magics of one notebook share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from disco_magic.errors import UsageMistake
from disco_magic.notebook.inspector.refresher import Refresher
from disco_magic.notebook.live.views import LiveViews
from disco_magic.notebook.plain import PlainCells
from disco_magic.phrases import class_name, near_misses

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disco_magic.notebook.keeper import SessionKeeper
    from disco_magic.notebook.magics import DiscoMagics
    from disco_magic.notebook.output.console import Console
    from disco_magic.notebook.shell import Shell
    from disco_magic.session.session import Session


@dataclass(slots=True)
class Front:
    """The notebook's side of the runtime; survives ``%reload_ext`` except for `settings`.

    Attributes:
        shell: IPython's.
        console: routes output.
        sessions: finds and starts sessions.
        settings: the magics object, which holds the configuration.
        views: the open inspectors and timelines.
        refresher: keeps the inspectors up to date.
        plain: decides where cells without a magic line run.
        others: sessions that cells have named with ``--session NAME``.
        futures: flags of what cells on workers have imported from ``__future__``, see `Cell`.
    """

    shell: Shell
    console: Console
    sessions: SessionKeeper
    settings: DiscoMagics
    views: LiveViews = field(default_factory=LiveViews)
    refresher: Refresher = field(default_factory=Refresher)
    plain: PlainCells = field(init=False)
    others: WeakSet[Session] = field(default_factory=WeakSet)
    futures: int = 0

    def __post_init__(self) -> None:
        self.plain = PlainCells(self)

    def variables(self, names: Iterable[str]) -> dict[str, Any]:
        """The values of notebook variables, by name."""
        found = {}
        for name in names:
            if name not in self.shell.user_ns:
                known, hidden = self.shell.user_ns, self.shell.user_ns_hidden  # IPython's own, such as `open`
                visible = [each for each in known if each not in hidden and not each.startswith("_")]
                where = "under %%local" if self.plain.on else "in a cell without %%disco"
                hint = near_misses(name, visible) or f"define it first, {where}"
                raise UsageMistake(f"the notebook has no variable {name!r}; {hint}")
            found[name] = self.shell.user_ns[name]
        return found

    def session_in(self, name: str) -> Session:
        """The session in a notebook variable, or the open one of that number."""
        if name.isdigit():
            return _numbered(int(name))
        held = self.variables([name])[name]
        from disco_magic.session.session import Session  # brings NumPy, which the extension does not

        if not isinstance(held, Session):
            raise UsageMistake(
                f"the variable {name!r} holds no session but {class_name(held)}; the current one is used "
                "without --session"
            )
        return held

    def session_there(self, name: str | None) -> Session | None:
        """The session of ``--session name``, without it the current one; None if closed or missing."""
        if name is None:
            return self.sessions.find()
        try:
            session = self.session_in(name)
        except UsageMistake:
            return None
        return None if session.closed else session

    def bind(self, values: dict[str, Any]) -> None:
        """Bind notebook variables."""
        self.shell.push(values)


def _numbered(number: int) -> Session:
    from disco_magic.session.current import open_sessions  # as above

    there = {each.id: each for each in open_sessions()}
    if number not in there:
        known = ", ".join(map(str, sorted(there))) or "none"
        raise UsageMistake(f"there is no open session {number}; there are: {known}")
    return there[number]
