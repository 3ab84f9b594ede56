"""Arrays that take no memory of the process's own."""

from __future__ import annotations

import errno
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from disco_magic.errors import DiscoError
from disco_magic.loader import shards
from disco_magic.loader.shards import spilled

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


def maps_of(path):
    """What /proc says of maps of a file: kB that are resident, one number per map."""
    found, mine = [], False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            mine = str(path) in line
        elif mine and line.startswith("Rss:"):
            found.append(int(line.split()[1]))
    return found


@on_linux
def test_a_spilled_array_is_a_file_without_a_name_and_goes_with_the_array(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    array = spilled((3, 1000), np.dtype("f8"))
    assert (array.shape, array.dtype, array.any()) == ((3, 1000), np.dtype("f8"), False)
    array[:] = np.arange(3000).reshape(3, 1000)
    assert array.sum() == 3000 * 2999 / 2
    assert array.ctypes.data % 64 == 0
    assert list(tmp_path.iterdir()) == []
    assert len(maps_of(tmp_path)) == 1
    del array
    assert maps_of(tmp_path) == []
    assert spilled((2, 0), np.dtype("f4")).shape == (2, 0)


def test_it_lies_where_there_is_room_rather_than_in_memory(monkeypatch, tmp_path):
    folders = []
    make = shards.tempfile.TemporaryFile

    def noted(**given):
        folders.append(given["dir"])
        return make(**given | {"dir": tmp_path})

    monkeypatch.setattr(shards.tempfile, "TemporaryFile", noted)
    monkeypatch.setenv("TMPDIR", "/somewhere")
    spilled((3,), np.dtype("f8"))
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(shards.os, "access", lambda path, mode: True)
    spilled((3,), np.dtype("f8"))
    monkeypatch.setattr(shards.os, "access", lambda path, mode: False)
    spilled((3,), np.dtype("f8"))
    assert folders == ["/somewhere", shards.ROOMY, shards.tempfile.gettempdir()]


def test_a_folder_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("TMPDIR", "/not/there")
    with pytest.raises(DiscoError, match=r"cannot be written in /not/there: No such file .*TMPDIR names"):
        spilled((3,), np.dtype("f8"))


def test_a_full_disk_is_found_before_anything_is_written(monkeypatch):
    def full(descriptor, start, nbytes):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shards.os, "posix_fallocate", full, raising=False)
    with pytest.raises(DiscoError, match=r"temporary file of 800 bytes .* No space left .* TMPDIR"):
        spilled((100,), np.dtype("f8"))


def test_room_is_taken_by_writing_where_the_system_cannot_reserve_it(monkeypatch, tmp_path):
    monkeypatch.delattr(shards.os, "posix_fallocate", raising=False)
    with (tmp_path / "f").open("wb") as file:
        shards._reserve(file.fileno(), 2**21 + 5)
    assert (tmp_path / "f").stat().st_size == 2**21 + 5
    assert (tmp_path / "f").stat().st_blocks * 512 >= 2**21
