"""The Disco kernel, installed for these tests alone."""

from __future__ import annotations

import pytest

from disco_magic.notebook import kernelspec
from tests.kernels import LOAD_SILENT, Kernel


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A prefix with the kernel, where Jupyter looks first; gives the prefix."""
    prefix = tmp_path_factory.mktemp("prefix")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(prefix / "share" / "jupyter"))
        kernelspec.install(prefix=str(prefix))
        yield prefix


@pytest.fixture(scope="module")
def disco(place):
    """The kernel, running; one for all tests of a module."""
    running = Kernel("disco")
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def fresh(disco):
    """The kernel with a new session of four workers."""
    disco.ok("%unload_ext disco_magic")
    disco.ok(LOAD_SILENT)
    disco.ok("%disco auto on")
    disco.ok("%disco start -n 4")
    return disco
