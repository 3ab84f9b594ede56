"""What is changed in libraries while this extension is loaded, so that they may be used on several workers.

Each is changed when the first cell is sent, or, if it is imported later, when that has happened. `fit`
functions get the module and return what undoes it; None if it is not what they know.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from disco_magic.notebook.libraries.bars import fit_auto, fit_bars
from disco_magic.notebook.libraries.captured import fit_output
from disco_magic.notebook.libraries.caught import CATCHERS
from disco_magic.notebook.libraries.compiler import fit_compiler
from disco_magic.notebook.libraries.drawing import fit_figure, fit_parser
from disco_magic.notebook.libraries.figures import INLINE, fit_choice, fit_show, fit_table
from disco_magic.notebook.libraries.imported import AfterImport, is_imported
from disco_magic.notebook.libraries.plot_settings import fit_settings
from disco_magic.notebook.libraries.rich_console import fit_console

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    Fit = Callable[[ModuleType], "Callable[[], None] | None"]

FITS: Final[Mapping[str, Fit]] = {
    "warnings": CATCHERS.fit,
    "matplotlib": fit_settings,
    "matplotlib._pylab_helpers": fit_table,
    "matplotlib.figure": fit_figure,
    "matplotlib.mathtext": fit_parser,
    INLINE: fit_show,
    "matplotlib.pyplot": fit_choice,
    "torch._dynamo.trace_rules": fit_compiler,
    "tqdm.std": fit_bars,
    "tqdm.auto": fit_auto,
    "rich": fit_console,
    "ipywidgets.widgets.widget_output": fit_output,
}


class Libraries:
    """The libraries of this process; several shells may want them changed.

    Args:
        fits: module -> what changes it.
    """

    def __init__(self, fits: Mapping[str, Fit] = FITS) -> None:
        self._fits = fits
        self._users: WeakSet[object] = WeakSet()
        self._undo: dict[str, Callable[[], None]] = {}
        self._lock = (
            threading.RLock()
        )  # a `fit` may import what is to be changed, too, and so may a finalizer
        self._finder = AfterImport(dict.fromkeys(fits, self._fit))

    def enter(self, user: object) -> None:
        """Change them, until `user` and all others have left or are gone; costs 3 us if nothing is new."""
        if user not in self._users:
            self._users.add(user)
            if self._finder not in sys.meta_path:
                sys.meta_path.insert(0, self._finder)
        for name in self._fits.keys() - self._undo.keys():
            if is_imported(name):
                self._fit(sys.modules[name])

    def leave(self, user: object) -> None:
        """Undo it after the last one."""
        self._users.discard(user)
        if self._users:
            return
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        with self._lock:
            for undo in reversed(self._undo.values()):
                undo()
            self._undo.clear()

    def _fit(self, module: ModuleType) -> None:
        name = module.__name__
        with self._lock:
            if not self._users or name in self._undo:
                return
            try:
                undo = self._fits[name](module)
            except (AttributeError, TypeError, ValueError):
                undo = (
                    None  # what we know is not there, or is something else: importing must not fail for that
                )
            self._undo[name] = undo or _nothing


def _nothing() -> None:
    """Undoes nothing."""


LIBRARIES: Final = Libraries()
