"""What a user of the wheel, and what a packager of the sdist gets."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import disco_magic
from disco_magic.functions.support import support

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("build", reason="the extra 'test' has it")
pytest.importorskip("setuptools", minversion="77", reason="the extra 'test' has it")

ROOT = Path(__file__).parents[1]
LEFT_BEHIND = shutil.ignore_patterns(
    ".git",
    ".venv*",
    "_build",
    "build",
    "dist",
    "*.egg-info",
    "__pycache__",
    ".*_cache",
    ".coverage*",
    "htmlcov",
)


def _build(kind: str, tree: Path, out: Path) -> Path:
    """Build one distribution with the setuptools of this environment: no download."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(out), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of the sdist by their name below its top folder, unpacked."""
    work = tmp_path_factory.mktemp("sdist")
    shutil.copytree(ROOT, work / "tree", ignore=LEFT_BEHIND)
    archive = _build("sdist", work / "tree", work / "dist")
    with tarfile.open(archive) as tar:
        # Our own archive. Python 3.11.4 has brought the filter, 3.12 warns without it.
        tar.extractall(work / "unpacked", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # noqa: S202
    (top,) = (work / "unpacked").iterdir()
    return {str(path.relative_to(top)): path for path in top.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def wheel(
    sdist_files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[zipfile.ZipFile]:
    """The wheel, built from the sdist as installers build it."""
    tree = sdist_files["pyproject.toml"].parent
    with zipfile.ZipFile(_build("wheel", tree, tmp_path_factory.mktemp("wheel"))) as archive:
        yield archive


def _files(folder: str) -> set[str]:
    """The checkout's files in `folder`, without what running leaves there."""
    paths = (path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file())
    return {
        str(path) for path in paths if not {"__pycache__", ".ipynb_checkpoints", "_build"} & set(path.parts)
    }


def _metadata(wheel: zipfile.ZipFile, name: str) -> str:
    (path,) = (path for path in wheel.namelist() if path.endswith(f".dist-info/{name}"))
    return wheel.read(path).decode()


def test_the_wheels_only_top_level_name_is_disco_magic(wheel: zipfile.ZipFile) -> None:
    assert _metadata(wheel, "top_level.txt").split() == ["disco_magic"]
    folders = {path.split("/")[0] for path in wheel.namelist()}
    assert {name for name in folders if not name.endswith((".dist-info", ".data"))} == {"disco_magic"}


def test_the_wheel_holds_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    assert _files("disco_magic") <= set(wheel.namelist())


def test_the_wheel_says_that_it_is_typed_and_carries_its_licence(wheel: zipfile.ZipFile) -> None:
    assert "disco_magic/py.typed" in wheel.namelist()
    assert "Apache License" in _metadata(wheel, "licenses/LICENSE")


def test_the_wheel_puts_the_kernel_where_jupyter_looks_for_it(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile"]
    command += ["--disable-pip-version-check", "--ignore-installed", "--prefix", str(tmp_path)]
    subprocess.run([*command, str(wheel.filename)], check=True, capture_output=True)  # noqa: S603 - our own command
    placed = tmp_path / "share" / "jupyter" / "kernels" / "disco"
    ours = ROOT / "kernel" / "disco"
    assert {path.name: path.read_bytes() for path in placed.iterdir()} == {
        path.name: path.read_bytes() for path in ours.iterdir()
    }
    # Jupyter puts its own interpreter in place of "python".
    assert json.loads((placed / "kernel.json").read_text())["argv"][0] == "python"


def test_a_plain_installation_needs_five_packages_only(wheel: zipfile.ZipFile) -> None:
    lines = [line for line in _metadata(wheel, "METADATA").splitlines() if line.startswith("Requires-Dist: ")]
    plain = {line.removeprefix("Requires-Dist: ").split(">")[0] for line in lines if "extra ==" not in line}
    assert plain == {"numpy", "ipython", "ipykernel", "ipywidgets", "traitlets"}


def test_every_extra_that_errors_and_pages_name_exists(wheel: zipfile.ZipFile) -> None:
    lines = _metadata(wheel, "METADATA").splitlines()
    extras = {line.removeprefix("Provides-Extra: ") for line in lines if line.startswith("Provides-Extra: ")}
    texts = [*(ROOT / "disco_magic").rglob("*.py"), *(ROOT / "docs").glob("**/*.md"), *ROOT.glob("*.md")]
    written = [re.findall(r"(?:disco-magic|\.)\[([a-z0-9,]+)\]", path.read_text("utf-8")) for path in texts]
    named = {extra for each in written for extras_of in each for extra in extras_of.split(",")}
    named |= {part.extra for part in support().values() if part.extra}
    assert {"cuda13", "tvm", "loader", "lab"} <= named <= extras


@pytest.mark.parametrize(
    "folder", ["disco_magic", "tests", "notebooks", "kernel", "benchmarks", "docs", ".ci"]
)
def test_the_sdist_holds_the_whole_folder(folder: str, sdist_files: dict[str, Path]) -> None:
    present = _files(folder)
    assert present, f"{folder} is empty"
    assert present <= set(sdist_files)


@pytest.mark.parametrize(
    "name",
    ["LICENSE", "Makefile", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "MANIFEST.in"],
)
def test_the_sdist_holds_the_file(name: str, sdist_files: dict[str, Path]) -> None:
    assert name in sdist_files


def test_the_sdist_holds_nothing_that_running_leaves_behind(sdist_files: dict[str, Path]) -> None:
    assert not [name for name in sdist_files if "__pycache__" in name or name.endswith(".pyc")]


def test_the_folder_kernel_is_data_and_can_not_be_imported_as_a_package() -> None:
    assert not list((ROOT / "kernel").rglob("*.py"))


def test_the_package_and_its_distribution_have_the_same_version(wheel: zipfile.ZipFile) -> None:
    assert f"Version: {disco_magic.__version__}\n" in _metadata(wheel, "METADATA")
