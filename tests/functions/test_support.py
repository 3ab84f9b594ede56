"""Which optional parts are there: by name, as a table, and what to install for the others."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path

import pytest

from disco_magic.errors import UnknownName
from disco_magic.functions.support import Part, Support, support
from tests.functions.conftest import OPTIONAL

NAMES = ["cuda", "nccl", "rccl", "mpi", "tvm", "ml_dtypes", "safetensors", "tqdm", "jupyterlab"]
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def state(name):
    part = support()[name]
    return part.present, part.version, part.note


def library(machine, name, *folders):
    """A shared library of that name, in the prefix or in a folder of the site-packages."""
    folder = machine.site.joinpath(*folders) if folders else machine.root / "prefix" / "lib"
    return machine.file(folder / name)


# --- the whole -------------------------------------------------------------------------------------


def test_on_a_bare_machine_only_what_is_built_in_is_there(machine):
    found = support()
    assert list(found) == NAMES
    assert [name for name, part in found.items() if part.present] == ["safetensors"]
    assert {part.version for part in found.values()} == {None}


def test_the_parts_are_read_by_name(machine):
    machine.install("tvm", "apache-tvm", "0.27.0")
    part = support()["tvm"]
    assert (part.name, part.present, part.version, part.extra) == ("tvm", True, "0.27.0", "tvm")
    assert part.purpose == "modules compiled by TVM"
    assert part.install == 'pip install "disco-magic[tvm]"'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tmv", r"^support\(\) has no part 'tmv'; did you mean 'tvm'\?$"),
        ("xccl", "did you mean '[nr]ccl' or '[nr]ccl'"),
        ("zzz", "the parts are cuda, nccl, rccl, mpi, tvm, ml_dtypes, safetensors, tqdm, jupyterlab$"),
        (3, "has no part 3; the parts are cuda"),
    ],
    ids=str,
)
def test_a_part_that_does_not_exist_is_refused_with_what_it_could_be(machine, name, text):
    found = support()
    with pytest.raises(UnknownName, match=text):
        found[name]
    assert name not in found
    assert found.get(name) is None


def test_a_copy_says_the_same(machine):
    found = support()
    assert copy.deepcopy(found) == found
    machine.install("tqdm")
    assert support() != found


def test_packages_that_are_broken_are_there_until_they_are_used(machine):
    for name in OPTIONAL:
        machine.install(name)
    library(machine, "libmpi.so")
    library(machine, "libnccl.so.2")
    there = [name for name, part in support().items() if part.present]
    assert there == [name for name in NAMES if name != "rccl"]


NOTHING_ELSE = f"""
import sys
from disco_magic.functions.support import support
found = support()
repr(found), found._repr_html_()
print(sorted({set(OPTIONAL) | {"numpy", "ctypes", "IPython"}!r} & sys.modules.keys()))
"""


def test_nothing_is_imported_or_loaded_to_find_out():
    command = [sys.executable, "-c", NOTHING_ELSE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own code
    assert (done.stdout, done.stderr) == ("[]\n", "")


# --- what to install -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "package"),
    [
        ("cuda12", "cupy-cuda12x"),
        ("cuda12", "nvidia-nccl-cu12"),
        ("cuda13", "cupy-cuda13x"),
        ("cuda13", "nvidia-nccl-cu13"),
        ("rocm", "cupy-rocm-7-0"),
        ("mpi", "mpi4py"),
        ("mpi", "mpich"),
        ("tvm", "apache-tvm"),
        ("loader", "tqdm"),
        ("lab", "jupyterlab"),
    ],
)
def test_the_extras_bring_what_is_looked_for(extra, package):
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    if extra == "loader" and extra not in extras:
        pytest.skip("the extra comes with the loader")
    names = [re.split(r"[^\w.-]", requirement)[0] for requirement in extras[extra]]
    assert package in names


def test_what_is_missing_says_how_to_install_it(machine):
    commands = {name: part.install for name, part in support().items()}
    assert commands == {
        "cuda": 'pip install "disco-magic[cuda13]"',
        "nccl": 'pip install "disco-magic[cuda13]"',
        "rccl": 'pip install "disco-magic[rocm]"',
        "mpi": 'pip install "disco-magic[mpi]"',
        "tvm": 'pip install "disco-magic[tvm]"',
        "ml_dtypes": 'pip install "disco-magic[loader]"',
        "safetensors": "",
        "tqdm": 'pip install "disco-magic[loader]"',
        "jupyterlab": 'pip install "disco-magic[lab]"',
    }
    assert {name: part.extra for name, part in support().items()} == {
        "cuda": "cuda13",
        "nccl": "cuda13",
        "rccl": "rocm",
        "mpi": "mpi",
        "tvm": "tvm",
        "ml_dtypes": "loader",
        "safetensors": None,
        "tqdm": "loader",
        "jupyterlab": "lab",
    }


@pytest.mark.parametrize(
    ("wheel", "driver", "extra"),
    [
        (None, None, "cuda13"),
        (None, "580.65.06", "cuda13"),
        (None, "590.10", "cuda13"),
        (None, "575.51.03", "cuda12"),
        ("cupy-cuda12x", "580.65.06", "cuda12"),
        ("cupy-cuda13x", "575.51.03", "cuda13"),
        ("cupy-cuda11x", "535.104.05", "cuda12"),
        ("cupy", None, "cuda13"),
    ],
)
def test_the_extra_for_gpus_fits_the_cupy_there_is_or_the_driver(machine, wheel, driver, extra):
    if wheel is not None:
        machine.install("cupy", wheel)
    if driver is not None:
        machine.driver(f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue Mar  5\n")
    found = support()
    assert (found["cuda"].extra, found["nccl"].extra) == (extra, extra)


# --- GPUs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "text"), [(0, "no NVIDIA GPU visible"), (1, "1 GPU visible"), (8, "8 GPUs visible")]
)
@pytest.mark.parametrize("there", [False, True])
def test_the_gpus_are_counted_whether_cupy_is_there_or_not(machine, count, text, there):
    machine.gpus(count)
    if there:
        machine.install("cupy", "cupy-cuda13x", "14.2.0")
    assert state("cuda") == (there, "14.2.0" if there else None, text)


def test_a_cupy_that_no_distribution_owns_has_no_version(machine):
    machine.package("cupy")
    assert state("cuda")[:2] == (True, None)


def test_metadata_without_the_package_is_not_there(machine):
    machine.distribution("cupy-cuda13x", "14.2.0")
    assert state("cuda")[:2] == (False, None)


def test_nccl_from_a_wheel_has_the_wheels_version(machine):
    machine.install("cupy", "cupy-cuda13x")
    assert state("nccl") == (False, None, "no libnccl.so.2 found")
    library(machine, "libnccl.so.2", "nvidia", "nccl", "lib")
    machine.distribution("nvidia-nccl-cu13", "2.28.3")
    assert state("nccl") == (True, "2.28.3", "from nvidia-nccl-cu13")


def test_nccl_in_a_wheels_folder_without_metadata_is_there_too(machine):
    machine.install("cupy", "cupy-cuda13x")
    path = library(machine, "libnccl.so.2", "nvidia", "nccl", "lib")
    assert state("nccl") == (True, None, f"from {path}")


def test_nccl_of_the_machine_has_the_version_of_its_file(machine):
    machine.install("cupy", "cupy-cuda13x")
    link = machine.root / "system" / "libnccl.so.2"
    machine.file(link.with_name("libnccl.so.2.27.7"))
    link.symlink_to("libnccl.so.2.27.7")
    machine.list_libraries(link)
    assert state("nccl") == (True, "2.27.7", f"from {link}")


def test_nccl_without_cupy_is_not_there(machine):
    library(machine, "libnccl.so.2", "nvidia", "nccl", "lib")
    machine.distribution("nvidia-nccl-cu12", "2.28.3")
    assert state("nccl") == (False, "2.28.3", "from nvidia-nccl-cu12, no cupy for CUDA")


def test_cupy_for_rocm_is_not_cuda(machine, monkeypatch):
    machine.install("cupy", "cupy-rocm-7-0", "14.2.0")
    found = support()
    assert (found["cuda"].present, found["cuda"].version, found["nccl"].present) == (False, None, False)
    assert state("rccl") == (False, None, "no librccl, which is part of ROCm")
    path = library(machine, "librccl.so.1", "rocm", "lib")
    monkeypatch.setenv("ROCM_PATH", str(machine.site / "rocm"))
    assert state("rccl") == (True, None, f"from {path}")


def test_rccl_without_cupy_for_rocm_is_not_there(machine):
    assert state("rccl") == (False, None, "no cupy for ROCm, no librccl, which is part of ROCm")
    library(machine, "librccl.so.1")
    machine.install("cupy", "cupy-cuda13x")
    assert state("rccl") == (False, None, "no cupy for ROCm")


# --- the others ------------------------------------------------------------------------------------


def test_mpi_needs_mpi4py_and_an_mpi_library(machine):
    assert state("mpi") == (False, None, "no mpi4py, no MPI library found")
    machine.install("mpi4py", version="4.1.2")
    assert state("mpi") == (False, "4.1.2", "no MPI library found")
    path = library(machine, "libmpi.so.12")
    assert state("mpi") == (True, "4.1.2", f"with {path}")
    machine.distribution("mpich", "5.0.2")
    assert state("mpi") == (True, "4.1.2", "with mpich 5.0.2")


def test_an_mpi_library_alone_is_not_mpi(machine):
    path = library(machine, "libmpi.so")
    assert state("mpi") == (False, None, f"no mpi4py, with {path}")


def test_the_machines_own_mpi_is_not_taken_for_the_wheel_of_one(machine):
    machine.install("mpi4py")
    machine.distribution("mpich", "5.0.2")
    path = machine.file(machine.root / "system" / "libmpi.so.40")
    machine.list_libraries(path)
    assert state("mpi") == (True, "1.0", f"with {path}")


@pytest.mark.parametrize("what", ["file", "folder"])
def test_the_mpi_library_that_mpi4py_is_told_to_take_is_found(machine, monkeypatch, what):
    machine.install("mpi4py")
    path = machine.file(machine.root / "own" / ("libown.so" if what == "file" else "libmpi.so.40"))
    monkeypatch.setenv("MPI4PY_LIBMPI", str(path if what == "file" else path.parent))
    assert state("mpi") == (True, "1.0", f"with {path}")


def test_tvm_says_which_object_system_it_has(machine):
    assert state("tvm") == (False, None, "")
    machine.install("tvm_ffi", "apache-tvm-ffi", "0.1.15")
    assert state("tvm") == (False, None, "only apache-tvm-ffi 0.1.15")
    machine.install("tvm", "apache-tvm", "0.27.0")
    assert state("tvm") == (True, "0.27.0", "with apache-tvm-ffi 0.1.15")


@pytest.mark.parametrize("name", ["ml_dtypes", "tqdm", "jupyterlab"])
def test_a_part_that_is_one_package_is_there_with_it(machine, name):
    assert state(name) == (False, None, "")
    machine.install(name, version="3.1")
    assert state(name) == (True, "3.1", "")


def test_the_python_that_runs_this_has_what_it_says():
    assert support()["ml_dtypes"].version == version("ml_dtypes")


# --- the table -------------------------------------------------------------------------------------

EXAMPLE = Support(
    Part(
        "tvm", present=True, version="0.27.0", purpose="modules", extra="tvm", install="pip", note="with ffi"
    ),
    Part("ml_dtypes", present=False, version=None, purpose="dtypes", install="pip install ml_dtypes"),
    Part("mpi", present=False, version="4.1", purpose="MPI", extra="mpi", install="pip mpi", note="no MPI"),
)


def test_the_text_is_an_aligned_table():
    assert repr(EXAMPLE).splitlines() == [
        "disco_magic: 1 of 3 optional parts are there",
        "part       there  version  what for",
        "tvm        yes    0.27.0   modules   with ffi",
        "ml_dtypes  no              dtypes    pip install ml_dtypes",
        "mpi        no     4.1      MPI       pip mpi · no MPI",
    ]


class Table(HTMLParser):
    """The texts of a table's cells, row by row; fails on tags that are not closed in order."""

    def __init__(self, html):
        super().__init__()
        self.open, self.rows = [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag == "br":
            self.rows[-1][-1] += "|"
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def test_the_html_is_the_same_table():
    assert Table(EXAMPLE._repr_html_()).rows == [
        ["part", "there", "version", "what for", ""],
        ["tvm", "✓ yes", "0.27.0", "modules", "with ffi"],
        ["ml_dtypes", "no", "", "dtypes", "pip install ml_dtypes"],
        ["mpi", "no", "4.1", "MPI", "pip mpi|no MPI"],
    ]


def test_nothing_in_the_html_is_taken_for_markup():
    strange = "<b>&\"'"
    html = Support(Part(strange, False, strange, strange, strange, strange, strange))._repr_html_()
    assert "<b>" not in html
    assert Table(html).rows[1] == [strange, "no", strange, strange, f"{strange}|{strange}"]


def test_the_whole_table_is_shown_for_a_machine_that_has_everything(machine):
    for name in OPTIONAL:
        machine.install(name)
    machine.gpus(2)
    text = repr(support())
    assert text.startswith("disco_magic: 6 of 9 optional parts are there\n")
    assert len(Table(support()._repr_html_()).rows) == 10
    assert "2 GPUs visible" in text
