"""What is found on a machine without importing it: packages, libraries, GPUs."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import types

import pytest

from disco_magic.functions import installed
from disco_magic.functions.installed import (
    find_library,
    first_of,
    has_package,
    is_file,
    library_version,
    nvidia_driver,
    paths_in,
    version_of,
    visible_gpus,
)

# --- packages --------------------------------------------------------------------------------------


def test_a_package_is_found_without_being_imported(machine):
    machine.package("broken_on_import", "raise SystemExit('imported')")
    assert has_package("broken_on_import")
    assert "broken_on_import" not in sys.modules


def test_a_folder_without_code_is_no_package(machine):
    (machine.site / "left_over" / "data").mkdir(parents=True)
    assert not has_package("left_over")


def test_a_package_that_is_not_there_is_not_found(machine):
    assert not has_package("not_there_at_all")


def test_a_module_that_was_made_by_hand_is_not_taken_for_a_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "made_by_hand", types.ModuleType("made_by_hand"))
    assert not has_package("made_by_hand")


def test_a_finder_that_refuses_a_name_means_it_is_not_there(monkeypatch):
    class Refusing:
        @staticmethod
        def find_spec(name, path=None, target=None):
            raise ModuleNotFoundError(name)

    monkeypatch.setattr(sys, "meta_path", [Refusing, importlib.machinery.PathFinder])
    assert not has_package("not_there_at_all")


def test_the_version_is_that_of_the_first_distribution_there_is(machine):
    machine.distribution("second-one", "2.5")
    machine.distribution("third-one", "3.5")
    names = ("first-one", "second-one", "third-one")
    assert (first_of(*names), version_of(*names)) == ("second-one", "2.5")
    assert (first_of("first-one"), version_of("first-one")) == (None, None)


@pytest.mark.parametrize(
    "metadata", [b"Metadata-Version: 2.1\nName: odd\n", b"", b"\xff\xfe\x00", None], ids=range(4)
)
def test_a_distribution_whose_metadata_is_broken_has_no_version(machine, metadata):
    folder = machine.distribution("odd", "1.0")
    (folder / "METADATA").unlink()
    if metadata is not None:
        (folder / "METADATA").write_bytes(metadata)
    assert (first_of("odd"), version_of("odd")) == ("odd", None)


# --- libraries -------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["also", "variable", "prefix", "base", "user", "list"])
def test_a_library_is_found_where_the_loader_would_look(machine, monkeypatch, place):
    folder = machine.root / place / "lib"
    library = machine.file(folder / "libthing.so.2")
    also = [folder] if place == "also" else []
    if place == "variable":
        monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere{os.pathsep}{os.pathsep}{folder}")
    if place == "list":
        machine.list_libraries(folder / "libthing.so", library, folder / "libthing.so.20")
    if place == "user":
        monkeypatch.setattr("site.ENABLE_USER_SITE", True)
        monkeypatch.setattr("site.USER_BASE", str(folder.parent))
    if place in ("prefix", "base"):
        monkeypatch.setattr(sys, "prefix" if place == "prefix" else "base_prefix", str(folder.parent))
    assert find_library("libthing.so.2", also=also) == library
    assert find_library("libthing.so.3", "libthing.so.2", also=also) == library
    assert find_library("libthing.so.3", also=also) is None


def test_a_library_of_the_list_that_was_deleted_since_is_not_there(machine):
    machine.list_libraries(machine.root / "gone" / "libthing.so.2")
    assert find_library("libthing.so.2") is None


def test_where_the_loader_has_no_list_its_usual_folders_are_looked_into(machine, monkeypatch):
    library = machine.file(machine.root / "lib" / "libthing.so.2")
    monkeypatch.setattr(installed, "_FOLDERS", (machine.root / "other", library.parent))
    assert find_library("libthing.so.2") is None
    installed._LOADER_CACHE.unlink()
    assert find_library("libthing.so.2") == library


def test_the_name_that_is_preferred_is_looked_for_everywhere_first(machine):
    machine.file(machine.root / "a" / "libthing.so.1")
    second = machine.file(machine.root / "b" / "libthing.so.2")
    also = [machine.root / "a", second.parent]
    assert find_library("libthing.so.2", "libthing.so.1", also=also) == second


def test_a_folder_that_must_not_be_read_has_no_files():
    class Locked:
        def is_file(self):
            raise PermissionError("no")

    assert not is_file(Locked())


@pytest.mark.parametrize(
    ("target", "version"),
    [
        ("libnccl.so.2.27.7", "2.27.7"),
        ("libnccl.so.2", None),
        ("libnccl.so", None),
        ("libnccl.2.dylib", None),
    ],
)
def test_a_librarys_version_is_in_the_name_of_the_file_it_links_to(machine, target, version):
    file = machine.file(machine.root / target)
    link = machine.root / "link.so"
    link.symlink_to(file)
    assert library_version(link) == version


def test_a_variable_that_is_not_set_has_no_paths(monkeypatch):
    monkeypatch.delenv("NOT_SET", raising=False)
    assert paths_in("NOT_SET") == []


# --- GPUs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        (None, 4),
        ("", 0),
        ("0", 1),
        ("3,1", 2),
        ("0, 2", 2),
        ("0,2,-1,1", 2),
        ("-1", 0),
        ("NoDevFiles", 0),
        ("4", 0),
        ("0,4,1", 1),
        ("9" * 5000, 0),
        ("GPU-8932f937", 1),
        ("GPU-8932f937,GPU-1", 2),
        ("MIG-1,MIG-2,MIG-3,MIG-4,MIG-5", 4),
        ("all", 0),
    ],
)
def test_gpus_are_counted_as_cuda_would_show_them(machine, monkeypatch, chosen, count):
    machine.gpus(4)
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert visible_gpus() == count


def test_where_there_are_no_device_files_there_is_no_gpu(machine, monkeypatch):
    assert visible_gpus() == 0
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,GPU-1")
    assert visible_gpus() == 0
    monkeypatch.setattr(installed, "_DEV", machine.root / "nowhere")
    assert visible_gpus() == 0


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n", 550),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n", 580),
        ("something else\n", None),
        (None, None),
    ],
    ids=range(4),
)
def test_the_driver_says_its_version(machine, text, version):
    if text is not None:
        machine.driver(text)
    assert nvidia_driver() == version
