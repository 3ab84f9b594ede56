"""A machine on which nothing is installed but what a test puts there."""

from __future__ import annotations

import importlib
import sys
import sysconfig

import pytest

from disco_magic.functions import installed
from tests.notebook.frames import pandas  # noqa: F401 - a fixture

OPTIONAL = ("cupy", "mpi4py", "tvm", "tvm_ffi", "ml_dtypes", "tqdm", "jupyterlab")


class Machine:
    """Folders in which the questions of `installed` are answered, and ways to fill them.

    Attributes:
        root: everything is below it.
        site: where packages are.
    """

    def __init__(self, root):
        self.root = root
        self.site = root / "site-packages"
        for name in ("site-packages", "dev", "prefix"):
            (root / name).mkdir()
        self.file(root / "dev" / "null")
        self.list_libraries()

    @staticmethod
    def file(path, content=b""):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def package(self, name, code=""):
        """A package with that code, and no metadata."""
        self.file(self.site / name / "__init__.py", code.encode())
        importlib.invalidate_caches()

    def distribution(self, name, version):
        """The metadata of an installed distribution; returns their folder."""
        folder = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        self.file(folder / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode())
        importlib.invalidate_caches()
        return folder

    def install(self, package, distribution=None, version="1.0"):
        """A package that fails when it is imported, and its metadata."""
        self.package(package, f"raise SystemExit('{package} was imported')")
        self.distribution(distribution or package, version)

    def gpus(self, count):
        """Device files as the NVIDIA driver makes them."""
        for name in ["nvidiactl", "nvidia-uvm", "nvidia-modeset", *(f"nvidia{i}" for i in range(count))]:
            self.file(self.root / "dev" / name)

    def driver(self, text):
        self.file(self.root / "driver", text.encode())

    def list_libraries(self, *paths):
        """The loader's list: numbers, then names and paths, each ended by a zero byte."""
        names = [text for path in paths for text in (path.name, str(path))]
        header = b"glibc-ld.so.cache1.1\x02\0\0\0" + bytes(range(64))
        self.file(self.root / "ld.so.cache", header + b"\0".join(name.encode() for name in names) + b"\0")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    made = Machine(tmp_path)
    for name in OPTIONAL:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for variable in ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "MPI4PY_LIBMPI", "ROCM_PATH"):
        monkeypatch.delenv(variable, raising=False)
    # What the standard library still has to import while a test runs has to be found.
    standard = [entry for entry in sys.path if entry.startswith(sysconfig.get_path("stdlib"))]
    monkeypatch.setattr(sys, "path", [str(made.site), *(e for e in standard if "-packages" not in e)])
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "prefix"))
    monkeypatch.setattr("site.ENABLE_USER_SITE", False)
    monkeypatch.setattr(installed, "_DEV", tmp_path / "dev")
    monkeypatch.setattr(installed, "_DRIVER", tmp_path / "driver")
    monkeypatch.setattr(installed, "_LOADER_CACHE", tmp_path / "ld.so.cache")
    monkeypatch.setattr(installed, "_FOLDERS", ())
    return made
