"""``warnings.catch_warnings`` on several workers at once.

It replaces the process's list of filters, and at its end puts back what it found. In four threads at once one
finds another's list and puts it back when that one has long ended, or adds its ``ignore`` to the notebook's
own list: from then on nobody sees a warning any more. Libraries use it everywhere.

Meanwhile it is done like this: whoever is inside has a list of filters, made from the one around it; the
newest holds, for everybody, as Python knows only one; when all have left, what was there before holds again.
What is recorded (``record=True``) is the calling worker's own.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from disco_magic.locks import new_rlock
from disco_magic.notebook.libraries.homes import home

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.notebook.libraries.homes import Home


@dataclass(slots=True, eq=False)
class _Inside:
    """Somebody inside of a `catch_warnings`.

    Attributes:
        catcher: the `catch_warnings`.
        owner: the worker; None: none.
        filters: theirs.
        log: what they record; None: nothing.
    """

    catcher: Any
    owner: Home | None
    filters: list[Any]
    log: list[Any] | None


class Catchers:
    """Everybody who is inside.

    Attributes:
        in_place: whether it is done so now.

    What callers may rely on: while nobody is, filters, `showwarning` and what stands behind it are those of
    the notebook. Whoever was ended inside, or half-way in, is taken out by `drop` when its cell ends.
    """

    def __init__(self) -> None:
        self.in_place = False
        # Not taken while anything else is waited for; a finalizer may come in on the same thread.
        self._turn = new_rlock()
        self._inside: list[_Inside] = []
        # Their `with` may still be left, by a thread that was given up: by then the notebook is elsewhere.
        self._dropped: WeakSet[Any] = WeakSet()
        self._before: tuple[list[Any], Any, Any] = ([], None, None)
        self._module: Any = None

    def fit(self, module: ModuleType) -> Callable[[], None] | None:
        """Do it so from now on; `module` is ``warnings``."""
        if sys.version_info >= (3, 14):
            return None  # written anew there, and can be asked to be right: python -X context_aware_warnings
        self._module = module
        kind: Any = module.catch_warnings
        enter, leave = kind.__enter__, kind.__exit__

        def enter_beside_others(catcher: Any) -> Any:
            return self._enter(catcher) if catcher._module is module else enter(catcher)  # noqa: SLF001

        def leave_beside_others(catcher: Any, *raised: object) -> None:
            if not self._leave(catcher):
                leave(catcher, *raised)

        kind.__enter__, kind.__exit__ = enter_beside_others, leave_beside_others
        self.in_place = True

        def undo() -> None:
            self.drop_all()
            self._inside.clear()  # the notebook may be inside, and leaves as ever
            self.in_place = False
            if kind.__enter__ is enter_beside_others and kind.__exit__ is leave_beside_others:
                kind.__enter__, kind.__exit__ = enter, leave

        return undo

    def drop(self) -> None:
        """The calling worker's cell has ended: it is inside of nothing."""
        mine = home()
        if self._inside and mine is not None:
            with self._turn:
                self._drop(self._those(lambda each: each.owner is mine))

    def drop_all(self) -> None:
        """No cell runs: no worker is inside of anything, given up or not."""
        if self._inside:
            with self._turn:
                self._drop(self._those(lambda each: each.owner is not None))

    def _those(self, are_meant: Callable[[_Inside], bool]) -> list[_Inside]:
        # Not in the body of a `with`: CPython 3.13.0 compiles a comprehension with a condition so that who is
        # struck there leaves the lock taken.
        return [each for each in self._inside if are_meant(each)]

    def _drop(self, gone: list[_Inside]) -> None:
        self._dropped.update(each.catcher for each in gone)
        self._inside = [each for each in self._inside if each not in gone]
        self._hold()

    def _enter(self, catcher: Any) -> list[Any] | None:
        module, mine = self._module, home()
        if catcher._entered:  # noqa: SLF001 - as the method that this stands for
            raise RuntimeError(f"Cannot enter {catcher!r} twice")
        with self._turn:
            catcher._entered = True  # noqa: SLF001
            now = module.filters, module.showwarning, module._showwarnmsg_impl  # noqa: SLF001
            if not self._inside:
                self._before = now
            around = next((each for each in reversed(self._inside) if each.owner is mine), None)
            filters = list(self._before[0] if around is None else around.filters)
            log: list[Any] | None = [] if catcher._record else None  # noqa: SLF001
            self._inside.append(_Inside(catcher, mine, filters, log))
            # For one that is left when this is undone.
            catcher._filters, catcher._showwarning, catcher._showwarnmsg_impl = self._before  # noqa: SLF001
            self._hold()
            if catcher._filter is not None:  # noqa: SLF001
                module.simplefilter(*catcher._filter)  # noqa: SLF001
            return log

    def _leave(self, catcher: Any) -> bool:
        """Whether it was inside as this class knows it."""
        with self._turn:
            left = self._those(lambda each: each.catcher is not catcher)
            if len(left) < len(self._inside):
                self._inside = left
                self._hold()
                return True
            if catcher in self._dropped:
                return True
            if not self._inside or not catcher._entered:  # noqa: SLF001
                return False
            # It was entered before; others are inside still: this is what is there when they have left.
            self._before = catcher._filters, catcher._showwarning, catcher._showwarnmsg_impl  # noqa: SLF001
            return True

    def _hold(self) -> None:
        """Let the newest one's filters hold."""
        module = self._module
        filters, module.showwarning, module._showwarnmsg_impl = self._before  # noqa: SLF001
        module.filters = self._inside[-1].filters if self._inside else filters
        if any(each.log is not None for each in self._inside):
            module.showwarning = module._showwarning_orig  # noqa: SLF001
            module._showwarnmsg_impl = self._show  # noqa: SLF001
        module._filters_mutated()  # noqa: SLF001

    def _show(self, message: Any) -> None:
        """Record a warning or show it."""
        mine = home()
        logs = [each.log for each in self._inside if each.owner is mine and each.log is not None]
        _, show, show_behind = self._before
        if logs:
            logs[-1].append(message)
        elif show is self._module._showwarning_orig:  # noqa: SLF001
            show_behind(message)
        else:  # a replacement, which is public
            told = message.message, message.category, message.filename, message.lineno
            show(*told, message.file, message.line)


CATCHERS: Final = Catchers()
