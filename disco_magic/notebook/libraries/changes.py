"""The changes of libraries while this extension is loaded, which let several workers use them.

A library is changed when the first cell is sent, or after its import if that is later. `fit` functions get
the module, and return a function that undoes the change; None if the version is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.isolation.imported import Libraries
from disco_magic.notebook.libraries.bars import fit_auto, fit_bars
from disco_magic.notebook.libraries.captured import fit_output
from disco_magic.notebook.libraries.drawing import fit_figure, fit_parser
from disco_magic.notebook.libraries.figures import INLINE, fit_choice, fit_show, fit_table
from disco_magic.notebook.libraries.plot_settings import fit_settings
from disco_magic.notebook.libraries.rich_console import fit_console, fit_traceback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disco_magic.isolation.imported import Fit

FITS: Final[Mapping[str, Fit]] = {
    "matplotlib": fit_settings,
    "matplotlib._pylab_helpers": fit_table,
    "matplotlib.figure": fit_figure,
    "matplotlib.mathtext": fit_parser,
    INLINE: fit_show,
    "matplotlib.pyplot": fit_choice,
    "tqdm.std": fit_bars,
    "tqdm.auto": fit_auto,
    "rich": fit_console,
    "rich.traceback": fit_traceback,
    "ipywidgets.widgets.widget_output": fit_output,
}


LIBRARIES: Final = Libraries(FITS)
