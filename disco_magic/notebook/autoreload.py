"""``%autoreload`` for modules that workers import for themselves.

IPython looks in `sys.modules`, where those are not. So each worker reloads its own before a cell, by the
means of IPython: functions and classes that others have imported from the module are updated in place.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from disco_magic.isolation import sources
from disco_magic.isolation.standing_modules import imports_for, is_standing
from disco_magic.phrases import class_name, words

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

    from disco_magic.notebook.shell import Shell


_EXTENSION: Final = "IPython.extensions.autoreload"


def is_autoreloaded(shell: Shell, name: str) -> bool:
    """Whether ``%autoreload`` reloads the module before each cell."""
    reloader = _enabled_reloader(shell)
    if reloader is None or name in reloader.skip_modules:
        return False
    return reloader.check_all or name in reloader.modules


def _enabled_reloader(shell: Shell) -> Any:
    """IPython's reloader; None while ``%autoreload`` is off. There is no public way to ask."""
    if _EXTENSION not in sys.modules:
        return None  # as it mostly is
    reloader = getattr(shell.magics_manager.registry.get("AutoreloadMagics"), "_reloader", None)
    return reloader if reloader is not None and reloader.enabled else None


def reloads(shell: Shell) -> Callable[[], None] | None:
    """What a worker calls before a cell, to reload its own modules; None if none has changed.

    Asks for the files only if ``%autoreload`` is on.
    """
    if _EXTENSION not in sys.modules or _enabled_reloader(shell) is None:
        return None
    names = [
        name
        for name in sources.changed("")
        if is_standing(sys.modules.get(name)) and is_autoreloaded(shell, name)
    ]
    return partial(_reload, tuple(names)) if names else None


def _reload(names: tuple[str, ...]) -> None:
    """Reload those of the calling worker's modules whose files have changed; say which could not be."""
    from IPython.extensions.autoreload import superreload

    for name in names:
        imports = imports_for(name)
        module = imports.modules.get(name)
        if module is None or not sources.has_changed(module):
            continue
        try:
            superreload(module, partial(_executed_again, name, vars(module).get("__spec__")), {})  # type: ignore[no-untyped-call]
        except Exception as reason:  # noqa: BLE001 - of the user's module; the cell runs with what it was
            print(
                f"%autoreload: {name} is still what it was: {class_name(reason)}: {words(reason)}",
                file=sys.stderr,
            )


def _executed_again(name: str, spec: object, module: types.ModuleType) -> types.ModuleType:
    """Reload a module of the calling worker's, which IPython has emptied."""
    vars(module)["__spec__"] = spec  # says where its file is, if that is no longer searched for
    return imports_for(name).reload(name)
