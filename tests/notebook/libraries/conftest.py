"""A kernel in which workers plot."""

from __future__ import annotations

import pytest

from tests.notebook.libraries.drawings import PLOT


@pytest.fixture(scope="module")
def plots(kernel):
    """The module's kernel; figures are SVG, in which titles can be read, and `plot` makes some."""
    kernel.ok("import matplotlib.pyplot as plt\nplt.rcParams['svg.fonttype'] = 'none'")
    kernel.ok("%config InlineBackend.figure_formats = ['svg']")
    kernel.ok("%disco start -n 4")
    kernel.ok(f"%%disco\n{PLOT}")
    return kernel
