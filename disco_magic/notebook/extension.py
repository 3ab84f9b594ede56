"""``%load_ext`` and ``%unload_ext``: everything that is installed in IPython, and how it is removed."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from importlib import import_module
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, cast

from IPython.core.extensions import ExtensionManager

from disco_magic.callers.sites import add_labeller, remove_labeller
from disco_magic.isolation.streams import put_by
from disco_magic.notebook.completing.completion import complete_for_workers
from disco_magic.notebook.completing.inspection import inspect_for_workers
from disco_magic.notebook.debugging.breakpoints import BREAKPOINTS
from disco_magic.notebook.expansion import guard_expansion
from disco_magic.notebook.front import Front
from disco_magic.notebook.keeper import SessionKeeper
from disco_magic.notebook.later import LATER
from disco_magic.notebook.magics import DiscoMagics
from disco_magic.notebook.output.console import Console
from disco_magic.notebook.output.displays import Clearing
from disco_magic.notebook.output.footer import FOOTER
from disco_magic.notebook.output.outlet import put_above
from disco_magic.notebook.plain_errors import show_own_lines
from disco_magic.notebook.shell import cell_namer
from disco_magic.session.ear import EAR

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.notebook.shell import Shell


class _Bundle:
    """Formats values of one type; the module that does it is imported with the first value.

    Its function returns a MIME bundle, or HTML that stands beside the value's `repr`.
    """

    def __init__(self, module: str, function: str) -> None:
        self._home = module, function
        self._draw: Callable[[object], dict[str, str] | str] | None = None

    def __call__(self, value: object, **_: object) -> dict[str, str]:  # IPython says which forms it wants
        if self._draw is None:
            module, function = self._home
            self._draw = getattr(import_module(f"disco_magic.notebook.{module}"), function)
        drawn = self._draw(value)
        return drawn if isinstance(drawn, dict) else {"text/plain": repr(value), "text/html": drawn}


# By name, because the types' modules import NumPy, for which %load_ext should not wait.
_BUNDLES: Final = {
    ("disco_magic.session.results", "CellResult"): _Bundle("tables.results", "result_bundle"),
    ("disco_magic.session.dref", "DRef"): _Bundle("tables.registers", "dref_bundle"),
    ("disco_magic.core.snapshot", "SessionSnapshot"): _Bundle("tables.registers", "snapshot_bundle"),
    ("disco_magic.core.register_parts", "RegisterParts"): _Bundle("tables.registers", "parts_bundle"),
    ("disco_magic.core.snapshot", "Row"): _Bundle("tables.registers", "row_bundle"),
    ("disco_magic.core.doctor", "Diagnosis"): _Bundle("tables.reports", "diagnosis_html"),
    ("disco_magic.core.stats", "SessionStats"): _Bundle("tables.reports", "stats_html"),
    ("disco_magic.core.timeline", "Timeline"): _Bundle("timeline.picture", "timeline_bundle"),
    ("disco_magic.core.history", "History"): _Bundle("tables.reports", "history_html"),
    ("disco_magic.core.report", "CheckReport"): _Bundle("tables.reports", "report_html"),
}


class Extension:
    """Everything of this package in one shell, installed by `__init__` and removed by `remove`."""

    def __init__(self, shell: Shell, front: Front | None) -> None:
        magics = DiscoMagics.configured(shell)
        self.front = front or Front(shell, Console(shell), SessionKeeper(shell), magics)
        self.front.settings = magics
        magics.front = self.front
        namer, front = cell_namer(shell), self.front
        # The last first, and every step even if another one raises: what is left could not be removed later.
        self._removed_by = ExitStack()
        undo = self._removed_by.callback
        add_labeller(namer)
        undo(remove_labeller, namer)
        shell.register_magics(magics)
        undo(_remove_magics, shell, magics)
        bundles = shell.display_formatter.mimebundle_formatter
        for (module, name), bundle in _BUNDLES.items():
            bundles.for_type_by_name(module, name, bundle)
        undo(_remove_bundles, bundles)
        undo(front.plain.install())
        undo(show_own_lines(shell, front.sessions.holders))
        undo(put_by(put_above))
        clearing = Clearing(shell)
        undo(clearing.take)
        clearing.put()
        ends = (front.console.settle, front.refresher.cell_ended, magics.cell_ended, EAR.rest)
        begins = (front.refresher.cell_began, FOOTER.begin_line, clearing.put)
        for event, listeners in (("pre_run_cell", begins), ("post_run_cell", ends)):
            for listener in listeners:
                shell.events.register(event, listener)
                undo(shell.events.unregister, event, listener)
        undo(BREAKPOINTS.remove)
        for put in (complete_for_workers, inspect_for_workers, guard_expansion):
            undo(put(front))

    def remove(self, *, keep_session: bool) -> None:
        """Remove everything; stop the workers unless the extension is being reloaded."""
        front = self.front
        with self._removed_by as steps:
            if not keep_session:
                for end in (LATER.end, front.console.close, front.sessions.close, front.refresher.join):
                    steps.callback(end)
                steps.callback(front.views.close)


# Kept as attributes of the shell, so that they die with it. Values of a WeakKeyDictionary refer to their key
# and would keep it alive.
_LOADED: Final = "_disco_magic_extension"
_KEPT: Final = "_disco_magic_front"


def load(shell: Shell) -> Front:
    """Add the magics to `shell`. Starts no worker, imports neither NumPy nor ipywidgets."""
    own = shell.__dict__
    if _LOADED not in own:
        own[_LOADED] = Extension(shell, own.pop(_KEPT, None))
    return cast("Extension", own[_LOADED]).front


def front_of(shell: Shell) -> Front | None:
    """The `Front` of `shell`; None if the extension is not loaded there."""
    extension: Extension | None = shell.__dict__.get(_LOADED)
    return None if extension is None else extension.front


def unload(shell: Shell) -> None:
    """Remove everything from `shell`. ``%reload_ext`` keeps the session, ``%unload_ext`` stops it."""
    extension = shell.__dict__.pop(_LOADED, None)
    if extension is None:
        return
    reloading = _is_reloading()
    extension.remove(keep_session=reloading)
    if reloading:
        shell.__dict__[_KEPT] = extension.front


def _is_reloading() -> bool:
    """Whether IPython unloads the extension only to load it again.

    `reload_extension` calls the unload function without saying so, and at this moment only the call stack
    tells the two apart. Stopping the workers later would break the promise of ``%unload_ext``.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - see above
    while frame is not None:
        if frame.f_code is ExtensionManager.reload_extension.__code__:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _remove_magics(shell: Shell, magics: DiscoMagics) -> None:
    manager = shell.magics_manager
    for table in manager.magics.values():
        for name, function in list(table.items()):
            # Check the type first: reading an attribute of one of IPython's lazy magics loads it.
            if isinstance(function, MethodType) and function.__self__ is magics:
                del table[name]
    if manager.registry.get(type(magics).__name__) is magics:
        del manager.registry[type(magics).__name__]
    if magics in shell.configurables:
        shell.configurables.remove(magics)


def _remove_bundles(formatter: Any) -> None:
    """Remove our formatters. IPython moves one from `deferred_printers` to `type_printers` at first use."""
    for key, bundle in _BUNDLES.items():
        formatter.deferred_printers.pop(key, None)
        for kind in [kind for kind, printer in formatter.type_printers.items() if printer is bundle]:
            del formatter.type_printers[kind]
