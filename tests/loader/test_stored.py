"""Parts of stored tensors: along every axis, in blocks, of files that were changed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from disco_magic.errors import DiscoError, UsageMistake
from disco_magic.loader import stored
from disco_magic.loader.safetensors import open_safetensors
from disco_magic.loader.stored import StoredFile
from disco_magic.loader.tensor_cache import open_tensor_cache
from tests.loader.files import write_cache, write_safetensors


def part(tensor, axis, rank, count):
    out = np.empty(tensor.part_shape(axis, count), tensor.dtype)
    return out, list(tensor.copy_to(out, axis, rank))


@pytest.fixture
def one(tmp_path):
    """Stores an array as a safetensors file; its StoredTensor."""

    def store(array):
        path = write_safetensors(tmp_path / "m.safetensors", {"odd": np.zeros(3, "i1"), "x": array})
        return open_safetensors(path).tensors["x"]

    return store


@pytest.mark.parametrize("shape", [(6,), (6, 4), (2, 6), (2, 6, 4), (1, 6), (1, 1, 6, 2), (12, 6, 0)])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("block", [1, 50, 10**9])
def test_a_part_is_what_numpy_would_split_off(one, monkeypatch, shape, count, block):
    monkeypatch.setattr(stored, "BLOCK_NBYTES", block)
    array = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    tensor = one(array)
    for axis in [axis for axis, length in enumerate(shape) if length % count == 0]:
        for rank, expected in enumerate(np.split(array, count, axis)):
            got, nbytes = part(tensor, axis, rank, count)
            np.testing.assert_array_equal(got, expected)
            assert sum(nbytes) == expected.nbytes == tensor.part_nbytes(axis, count)


def test_a_copy_comes_in_blocks_that_can_be_counted_and_left(one, monkeypatch):
    monkeypatch.setattr(stored, "BLOCK_NBYTES", 32)
    tensor = one(np.arange(20, dtype="f4"))
    assert part(tensor, None, 0, 1)[1] == [32, 32, 16]
    out = np.full(20, -1, "f4")
    next(tensor.copy_to(out, None, 0))
    assert out.tolist() == [*range(8), *[-1.0] * 12]


def test_what_is_read_is_writable_memory_of_its_own(one):
    tensor = one(np.arange(4.0))
    array = tensor.read()
    array[:] = -1
    assert array.flags.owndata
    assert tensor.read().tolist() == [0, 1, 2, 3]


def test_writing_to_the_elements_leaves_the_file_alone(one):
    tensor = one(np.arange(4, dtype="u8"))
    elements = tensor.elements()
    assert elements.tolist() == [0, 1, 2, 3]
    elements[:] = 0
    assert tensor.read().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_upper_halves_of_float32_are_widened(tmp_path, axis):
    array = np.array([[1.5, -2.0, 0.0], [np.inf, 3.0, -0.15625]], "f4")
    path = write_cache(tmp_path, {"f.bin": {"odd": np.zeros(3, "i1"), "x": array}}, halved=("x",))
    tensor = open_tensor_cache(path).tensors["x"]
    assert tensor.stored_nbytes == array.nbytes // 2
    count = 1 if axis is None else array.shape[axis]
    for rank in range(count):
        got, nbytes = part(tensor, axis, rank, count)
        expected = array if axis is None else array[(slice(None),) * axis + (slice(rank, rank + 1),)]
        assert got.dtype == np.dtype("f4")
        np.testing.assert_array_equal(got, expected)
        assert sum(nbytes) == expected.nbytes


# --- files that changed ----------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "f.bin"
    path.write_bytes(b"123456")
    return StoredFile.at(path, "file f")


def test_paths_are_absolute(tmp_path, monkeypatch):
    (tmp_path / "f.bin").write_bytes(b"1")
    monkeypatch.chdir(tmp_path)
    assert StoredFile.at(Path("f.bin"), "f").path == str(tmp_path / "f.bin")


@pytest.mark.parametrize(
    "change", [lambda p: p.write_bytes(b"1234567"), lambda p: os.utime(p, ns=(0, 0))], ids=["size", "time"]
)
def test_a_file_that_was_changed_is_not_read(file, change):
    change(Path(file.path))
    with pytest.raises(
        DiscoError, match=r"f\.bin was changed after it had been checked: it had 6 bytes and has (7|the same)"
    ):
        file.open()


def test_a_file_that_is_gone_is_said_so(file):
    Path(file.path).unlink()
    with pytest.raises(DiscoError, match=r"f\.bin cannot be read: No such file"):
        file.open()


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(UsageMistake, match="file f is not a file"):
        StoredFile.at(tmp_path, "file f")


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_a_file_that_is_cut_short_while_it_is_read_is_said_so(one, monkeypatch, axis):
    monkeypatch.setattr(stored, "BLOCK_NBYTES", 2**16)
    tensor = one(np.ones((512, 512), "f8"))
    out = np.zeros(tensor.part_shape(axis, 2), "f8")
    blocks = tensor.copy_to(out, axis, 1 if axis is not None else 0)
    next(blocks)
    os.truncate(tensor.file.path, tensor.offset + 2**16)
    with pytest.raises(DiscoError, match=r"m\.safetensors was changed after it had been checked: it had"):
        list(blocks)


def test_a_file_that_may_not_be_read_is_refused(file, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)  # root may read everything
    with pytest.raises(UsageMistake, match="file f cannot be read: Permission denied"):
        StoredFile.at(Path(file.path), "file f")


def test_a_sum_is_compared_block_by_block(file, monkeypatch):
    monkeypatch.setattr(stored, "BLOCK_NBYTES", 4)
    right = StoredFile(file.path, 6, file.mtime_ns, "e10adc3949ba59abbe56e057f20f883e")
    assert list(right.hashed()) == [4, 2]
    assert list(file.hashed()) == [4, 2]
    wrong = StoredFile(file.path, 6, file.mtime_ns, "0" * 32)
    with pytest.raises(DiscoError, match=r"f\.bin is damaged: its MD5 sum is e10adc39.*, expected 000"):
        list(wrong.hashed())
