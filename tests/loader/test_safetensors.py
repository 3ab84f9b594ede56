"""Headers and indices of safetensors files: what is read from good ones, what is said of bad ones."""

from __future__ import annotations

import json

import numpy as np
import pytest

from disco_magic.errors import UsageMistake
from disco_magic.loader.safetensors import MAX_HEADER_NBYTES, open_safetensors
from tests.loader.files import CODES, header_of, write_index, write_raw, write_safetensors

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
A = {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.arange(3, dtype="i8")}


def contents(catalogue):
    return {name: tensor.read().tolist() for name, tensor in catalogue.tensors.items()}


# --- good files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in CODES if "bfloat" not in name and "float8" not in name])
def test_tensors_of_every_type_come_back_as_they_were(tmp_path, name):
    array = np.arange(6).reshape(3, 2).astype(name)
    catalogue = open_safetensors(write_safetensors(tmp_path / "m.safetensors", {"x": array}))
    (tensor,) = catalogue.tensors.values()
    assert (tensor.name, tensor.shape, tensor.dtype) == ("x", (3, 2), np.dtype(name))
    np.testing.assert_array_equal(tensor.read(), array)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_tensors_of_types_from_ml_dtypes_come_back_as_they_were(tmp_path, name):
    kinds = pytest.importorskip("ml_dtypes")
    array = np.arange(6).reshape(3, 2).astype(getattr(kinds, name))
    catalogue = open_safetensors(write_safetensors(tmp_path / "m.safetensors", {"x": array}))
    read = catalogue.tensors["x"].read()
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


def test_empty_tensors_scalars_and_files_without_tensors_are_fine(tmp_path):
    arrays = {"none": np.zeros((0, 3)), "one": np.array(7.0), "last": np.zeros((2, 0), "i1")}
    read = contents(open_safetensors(write_safetensors(tmp_path / "m.safetensors", arrays)))
    assert read == {"none": [], "one": 7.0, "last": [[], []]}
    assert contents(open_safetensors(write_safetensors(tmp_path / "n.safetensors", {}))) == {}


def test_metadata_is_kept_and_may_be_null(tmp_path):
    path = write_safetensors(tmp_path / "m.safetensors", A, {"format": "np"})
    assert open_safetensors(path).metadata == {"format": "np"}
    header, body = header_of(A)
    assert open_safetensors(write_raw(path, {"__metadata__": None, **header}, body)).metadata == {}


def test_tensors_are_listed_in_the_order_they_lie_in(tmp_path):
    header, body = header_of(A)
    path = write_raw(tmp_path / "m.safetensors", dict(reversed(header.items())), body)
    assert list(open_safetensors(path).tensors) == ["a", "b"]


def test_elements_need_not_lie_at_multiples_of_their_size(tmp_path):
    arrays = {"odd": np.arange(3, dtype="i1"), **A}
    header, body = header_of(arrays)
    path = write_raw(tmp_path / "m.safetensors", json.dumps(header).encode() + b" ", body)
    assert contents(open_safetensors(path)) == {name: array.tolist() for name, array in arrays.items()}


def test_a_folder_stands_for_its_only_file(tmp_path):
    write_safetensors(tmp_path / "any.safetensors", A)
    assert list(open_safetensors(str(tmp_path)).tensors) == ["a", "b"]


def test_the_formats_own_library_writes_what_we_read(tmp_path):
    numpy_files = pytest.importorskip("safetensors.numpy")
    rng = np.random.default_rng(1)
    arrays = {
        f"t.{name}": (rng.random((4, 5)) * 100).astype(name) for name in ("f4", "f8", "f2", "i4", "u1", "?")
    }
    numpy_files.save_file(arrays, tmp_path / "m.safetensors", metadata={"a": "b"})
    catalogue = open_safetensors(tmp_path / "m.safetensors")
    assert catalogue.metadata == {"a": "b"}
    assert set(catalogue.tensors) == set(arrays)
    for name, tensor in catalogue.tensors.items():
        np.testing.assert_array_equal(tensor.read(), arrays[name])


# --- bad files -------------------------------------------------------------------------------------

BAD = {
    "empty": (lambda p: p.write_bytes(b""), "m.safetensors has 0 bytes, too few for a safetensors file"),
    "short": (lambda p: p.write_bytes(b"1234567"), "has 7 bytes, too few"),
    "header beyond the end": (
        lambda p: write_raw(p, {}, nbytes=100),
        r"by its first bytes the header has 100 bytes; the file has 10, and",
    ),
    "a pickle": (
        lambda p: p.write_bytes(b"\x80\x02}q\x00." * 9),
        "is not a safetensors file, or was cut short",
    ),
    "no text": (lambda p: write_raw(p, b"\xff\xfe{}"), "the header is no UTF-8 text"),
    "no JSON": (lambda p: write_raw(p, b"{'a': 1}"), "m.safetensors: the header is not valid JSON"),
    "no object": (lambda p: write_raw(p, b"[1, 2]"), "m.safetensors: the header is a list"),
    "a name twice": (
        lambda p: write_raw(p, b'{"a": %b, "a": %b}' % ((json.dumps(F32).encode(),) * 2), b"12345678"),
        "the key 'a' is there twice",
    ),
    "metadata of numbers": (
        lambda p: write_raw(p, {"__metadata__": {"a": 1}}),
        "__metadata__: 'a' is 1, expected text",
    ),
    "an entry that is none": (
        lambda p: write_raw(p, {"a": 3}),
        "m.safetensors: 'a' is 3, expected a JSON object",
    ),
    "no shape": (
        lambda p: write_raw(p, {"a": {"dtype": "F32"}}),
        "tensor 'a': 'shape' is missing; there are: dtype",
    ),
    "a negative length": (lambda p: write_raw(p, {"a": F32 | {"shape": [-2]}}), "'shape' is -2, expected"),
    "an unknown dtype": (
        lambda p: write_raw(p, {"a": F32 | {"dtype": "F99"}}),
        "tensor 'a': the dtype is 'F99'",
    ),
    "halves of a byte": (
        lambda p: write_raw(p, {"a": F32 | {"dtype": "F4"}}),
        "the dtype is 'F4', which cannot be read",
    ),
    "one offset": (
        lambda p: write_raw(p, {"a": F32 | {"data_offsets": [8]}}),
        r"'data_offsets' is \[8\], expected \[begin",
    ),
    "backwards": (
        lambda p: write_raw(p, {"a": F32 | {"data_offsets": [8, 0]}}),
        r"'data_offsets' is \[8, 0\]",
    ),
    "too few bytes": (
        lambda p: write_raw(p, {"a": F32 | {"shape": [3]}}, b"12345678"),
        r"tensor 'a': it has 8 bytes, but float32 of shape \[3\] takes 12",
    ),
    "a gap": (
        lambda p: write_raw(p, {"a": F32 | {"data_offsets": [4, 12]}}, b"1234" * 3),
        "tensor 'a' leaves a gap after the header: its 'data_offsets' begin at 4, expected 0",
    ),
    "an overlap": (
        lambda p: write_raw(p, {"a": F32, "b": F32 | {"data_offsets": [4, 12]}}, b"1234" * 3),
        "tensor 'b' overlaps tensor 'a': its 'data_offsets' begin at 4, expected 8",
    ),
    "cut short": (
        lambda p: write_raw(p, {"a": F32}, b"1234"),
        r"was cut short, or is still being written: by its header it has \d+ bytes, the file has \d+",
    ),
    "too long": (lambda p: write_raw(p, {"a": F32}, b"1234" * 3), "has bytes of no tensor"),
    "too many axes": (
        lambda p: write_raw(p, {"a": F32 | {"shape": [2] + [1] * 80}}, b"12345678"),
        r"tensor 'a': there is no array of shape \(2, 1, .*: 81 axes, NumPy has at most (64|32)",
    ),
    "an empty shape of endless axes": (
        lambda p: write_raw(p, {"a": F32 | {"shape": [2**62, 0], "data_offsets": [0, 0]}}, b""),
        r"there is no array of shape .*: it takes 2\^64 bytes or more",
    ),
    "a huge shape": (
        lambda p: write_raw(p, {"a": F32 | {"shape": [2**40, 2**40]}}, b"12345678"),
        r"there is no array of shape .*: it takes 2\^82 bytes or more",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_damaged_file_is_refused_before_anything_is_allocated(tmp_path, kind):
    make, words = BAD[kind]
    make(tmp_path / "m.safetensors")
    with pytest.raises(UsageMistake, match=words):
        open_safetensors(tmp_path / "m.safetensors")


def test_a_header_longer_than_the_limit_is_not_read(tmp_path):
    path = tmp_path / "m.safetensors"
    write_raw(path, {}, nbytes=MAX_HEADER_NBYTES + 1)
    with path.open("r+b") as file:
        file.truncate(MAX_HEADER_NBYTES + 100)  # a hole: takes no place on disk
    with pytest.raises(UsageMistake, match="100,000,000 are the limit"):
        open_safetensors(path)


def test_the_formats_own_library_refuses_them_too(tmp_path):
    library = pytest.importorskip("safetensors")
    # It takes the last one; knows 4-bit numbers; leaves it to NumPy, which raises.
    ours_alone = {"a name twice", "halves of a byte", "too many axes", "an empty shape of endless axes"}
    for kind, (make, _) in BAD.items():
        path = tmp_path / "m.safetensors"
        make(path)
        if kind not in ours_alone:
            with pytest.raises(library.SafetensorError):
                library.deserialize(path.read_bytes())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: None, "cannot be read: No such file or directory"),
        (
            lambda f: (f / "m.safetensors").mkdir(),
            r"has no model.safetensors.index.json, and of .safetensors files none",
        ),
    ],
    ids=["missing", "folder"],
)
def test_a_path_that_is_no_file_is_refused(tmp_path, make, words):
    make(tmp_path)
    with pytest.raises(UsageMistake, match=words):
        open_safetensors(tmp_path / "m.safetensors")


def test_a_folder_of_several_files_without_an_index_is_refused(tmp_path):
    for name in "ab":
        write_safetensors(tmp_path / f"{name}.safetensors", A)
    with pytest.raises(
        UsageMistake, match=r"2 .safetensors files \(a.safetensors, b.safetensors\); expected the index"
    ):
        open_safetensors(tmp_path)


# --- parts -----------------------------------------------------------------------------------------


def test_parts_are_one_checkpoint(tmp_path):
    path = write_index(
        tmp_path,
        {"1.safetensors": {"a": A["a"]}, "2.safetensors": {"b": A["b"]}},
        metadata={"total_size": 48},
    )
    for given in (path, tmp_path):
        catalogue = open_safetensors(given)
        assert contents(catalogue) == {name: array.tolist() for name, array in A.items()}
        assert catalogue.metadata == {"total_size": 48}
        assert [file.path for file in catalogue.files] == [str(tmp_path / f"{n}.safetensors") for n in (1, 2)]


@pytest.mark.parametrize(
    ("weight_map", "words"),
    [
        (
            {"a": "1.safetensors", "x": "1.safetensors"},
            r"'x' is not in 1\.safetensors; 'b' is in 1\.safetensors, but not in it",
        ),
        (
            {"a": "2.safetensors", "b": "1.safetensors", "c": "2.safetensors"},
            r"'a' is not in 2\.safetensors; 'a' is in 1\.safetensors, but the index says 2\.safetensors",
        ),
        (
            {"a": "3.safetensors", "b": "4.safetensors"},
            r"2 of 2 parts are missing in .*: 3\.safetensors, 4\.safetensors",
        ),
        ({"a": "../1.safetensors"}, r"names the file '\.\./1\.safetensors', expected one in the folder"),
        ({"a": "/etc/passwd"}, "names the file '/etc/passwd', expected one in the folder"),
        ({"a": ""}, "names the file '', expected"),
        ({"a": 3}, "'weight_map': 'a' is 3, expected text"),
        ({f"n{i}": "1.safetensors" for i in range(20)}, "; and 14 more; index and parts"),
    ],
    ids=range(8),
)
def test_an_index_that_does_not_fit_its_parts_is_refused(tmp_path, weight_map, words):
    path = write_index(tmp_path, {"1.safetensors": A, "2.safetensors": {"c": A["b"]}}, weight_map)
    with pytest.raises(UsageMistake, match=words):
        open_safetensors(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe", "is no UTF-8 text"),
        (b"[]", "index model.safetensors.index.json is a list"),
        (b"{}", "'weight_map' is missing"),
        (b'{"weight_map": []}', "'weight_map' is a list"),
    ],
    ids=range(4),
)
def test_an_index_that_is_none_is_refused(tmp_path, content, words):
    path = tmp_path / "model.safetensors.index.json"
    path.write_bytes(content)
    with pytest.raises(UsageMistake, match=words):
        open_safetensors(path)


def test_an_index_that_is_missing_is_refused(tmp_path):
    with pytest.raises(UsageMistake, match=r"index any\.json cannot be read: No such file"):
        open_safetensors(tmp_path / "any.json")


def test_an_index_of_nothing_has_no_tensors(tmp_path):
    assert open_safetensors(write_index(tmp_path, {})).tensors == {}
