"""TVM's parameter folders: what is read from good ones, what is said of bad ones."""

from __future__ import annotations

import json

import numpy as np
import pytest

from disco_magic.errors import UsageMistake
from disco_magic.loader.tensor_cache import open_tensor_cache
from tests.loader.files import cache_of, write_cache

FILES = {
    "params_shard_0.bin": {
        "param_0": np.arange(6, dtype="f4").reshape(2, 3),
        "param_1": np.arange(3, dtype="i8"),
    },
    "params_shard_1.bin": {"param_2": np.array([1.5, -2.0], "f4")},
}
ALL = {name: array for arrays in FILES.values() for name, array in arrays.items()}


def contents(catalogue):
    return {name: tensor.read().tolist() for name, tensor in catalogue.tensors.items()}


@pytest.mark.parametrize("name", ["tensor-cache.json", "ndarray-cache.json"])
@pytest.mark.parametrize("halved", [(), ("param_2",)])
def test_a_folder_is_read_under_its_new_and_its_old_name(tmp_path, name, halved):
    path = write_cache(tmp_path, FILES, name=name, halved=halved)
    for given in (path, tmp_path, str(tmp_path)):
        catalogue = open_tensor_cache(given)
        assert contents(catalogue) == {name: array.tolist() for name, array in ALL.items()}
        assert catalogue.metadata == {"model": "test"}
        assert [file.md5 is not None for file in catalogue.files] == [True, True]


def test_of_two_lists_the_one_with_the_new_name_is_taken(tmp_path):
    write_cache(tmp_path, FILES)
    (tmp_path / "ndarray-cache.json").write_text("{}")
    assert list(open_tensor_cache(tmp_path).tensors) == list(ALL)


def test_a_list_that_was_read_already_need_not_be_there(tmp_path):
    path = write_cache(tmp_path, FILES, md5=False)
    text = path.read_text()
    path.unlink()
    catalogue = open_tensor_cache(path, text)
    assert list(catalogue.tensors) == list(ALL)
    assert [file.md5 for file in catalogue.files] == [None, None]


def test_f32_to_bf16_means_nothing_for_other_types(tmp_path):
    # TVM writes its default format for every record, whatever the dtype.
    manifest, bodies = cache_of(FILES)
    manifest["records"][0]["records"][1]["format"] = "f32-to-bf16"
    (tmp_path / "params_shard_0.bin").write_bytes(bodies["params_shard_0.bin"])
    (tmp_path / "params_shard_1.bin").write_bytes(bodies["params_shard_1.bin"])
    catalogue = open_tensor_cache(tmp_path / "tensor-cache.json", json.dumps(manifest))
    assert catalogue.tensors["param_1"].read().tolist() == [0, 1, 2]


def test_empty_parameters_and_bytes_of_none_do_no_harm(tmp_path):
    manifest, _ = cache_of(
        {"f.bin": {"e": np.zeros((0, 2), "f4"), "a": np.arange(2, dtype="f4"), "g": np.zeros(0, "f4")}},
        md5=False,
    )
    manifest["records"][0]["records"][2]["byteOffset"] = 4
    manifest["records"][0]["nbytes"] = 12
    (tmp_path / "f.bin").write_bytes(np.arange(3, dtype="f4").tobytes())
    catalogue = open_tensor_cache(tmp_path / "tensor-cache.json", json.dumps(manifest))
    assert contents(catalogue) == {"e": [], "a": [0, 1], "g": []}


def edit(*path, to):
    """Set one place of a parameter list."""

    def change(manifest):
        at = manifest
        for key in path[:-1]:
            at = at[key]
        if to is None:
            del at[path[-1]]
        else:
            at[path[-1]] = to

    return change


SHARD = ("records", 0)
PARAM = (*SHARD, "records", 0)
BAD = {
    "no records": (
        edit("records", to=None),
        r"tensor-cache\.json: 'records' is missing; there are: metadata",
    ),
    "no list": (edit("records", to={}), "'records' is an object, expected a list"),
    "metadata of text": (edit("metadata", to="x"), "'metadata' is text, expected a JSON object"),
    "no file name": (edit(*SHARD, "dataPath", to=None), "a file's record: 'dataPath' is missing"),
    "a file elsewhere": (
        edit(*SHARD, "dataPath", to="../f"),
        r"names the file '\.\./f', expected one in the folder",
    ),
    "a missing file": (edit(*SHARD, "dataPath", to="f.bin"), r"file f\.bin cannot be read: No such file"),
    "another packing": (edit(*SHARD, "format", to="zip"), "the format is 'zip', expected 'raw-shard'"),
    "another size": (
        edit(*SHARD, "nbytes", to=47),
        r"params_shard_0\.bin has 48 bytes, expected 47; it is truncated or from",
    ),
    "a sum of numbers": (edit(*SHARD, "md5sum", to=3), "'md5sum' is 3, expected text"),
    "no name": (edit(*PARAM, "name", to=None), "a parameter's record: 'name' is missing"),
    "no dtype": (edit(*PARAM, "dtype", to=None), "parameter 'param_0': 'dtype' is missing"),
    "an unknown dtype": (edit(*PARAM, "dtype", to="float7"), "parameter 'param_0': the dtype is 'float7'"),
    "an unknown format": (
        edit(*PARAM, "format", to="zip"),
        "the format is 'zip', expected 'raw' or 'f32-to-bf16'",
    ),
    "a negative length": (
        edit(*PARAM, "shape", to=[-2, 3]),
        "'shape' is -2, expected a whole number of at least 0",
    ),
    "too few bytes": (
        edit(*PARAM, "shape", to=[3, 3]),
        r"it has 24 bytes, but float32 of shape \[3, 3\] takes 36",
    ),
    "too few halves": (
        edit(*PARAM, "format", to="f32-to-bf16"),
        r"it has 24 bytes, but bfloat16 of shape \[2, 3\] takes 12",
    ),
    "behind the end": (
        edit(*PARAM, "byteOffset", to=30),
        "it ends at byte 54, beyond the end of the file at 48",
    ),
    "a negative offset": (edit(*PARAM, "byteOffset", to=-1), "'byteOffset' is -1"),
    "an overlap": (
        edit(*PARAM, "byteOffset", to=8),
        "parameter 'param_1' overlaps 'param_0': it begins at byte 24, and that one ends at 32",
    ),
    "a name twice": (
        edit("records", 1, "records", 0, "name", to="param_0"),
        r"'param_0' is there twice, in params_shard_0\.bin and params_shard_1\.bin",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_damaged_list_is_refused_before_anything_is_allocated(tmp_path, kind):
    change, words = BAD[kind]
    path = write_cache(tmp_path, FILES)
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(UsageMistake, match=words):
        open_tensor_cache(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\xff", "is no UTF-8 text"), (b"[]", r"tensor-cache\.json is a list"), (b"", r"is not valid JSON")],
    ids=range(3),
)
def test_a_list_that_is_none_is_refused(tmp_path, content, words):
    (tmp_path / "tensor-cache.json").write_bytes(content)
    with pytest.raises(UsageMistake, match=words):
        open_tensor_cache(tmp_path)


def test_a_folder_without_a_list_is_refused(tmp_path):
    with pytest.raises(UsageMistake, match=r"neither tensor-cache\.json nor ndarray-cache\.json"):
        open_tensor_cache(tmp_path)
    with pytest.raises(UsageMistake, match=r"parameter list x\.json cannot be read"):
        open_tensor_cache(tmp_path / "x.json")


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # TVM's own
@pytest.mark.parametrize("encode_format", ["raw", "f32-to-bf16"])
def test_what_tvm_writes_is_what_tvm_reads(tmp_path, encode_format, capsys):
    tvmjs = pytest.importorskip("tvm.contrib.tvmjs")
    tvm = pytest.importorskip("tvm")
    rng = np.random.default_rng(1)
    arrays = {
        f"param_{i}": (rng.random((40, 50)) * 9).astype(dtype)
        for i, dtype in enumerate(("f4", "f2", "i4", "u1"))
    }
    tvmjs.dump_tensor_cache(
        arrays, str(tmp_path), encode_format=encode_format, shard_cap_mb=1, show_progress=False
    )
    theirs, _ = tvmjs.load_tensor_cache(str(tmp_path), tvm.cpu())
    catalogue = open_tensor_cache(tmp_path)
    for name, tensor in catalogue.tensors.items():
        np.testing.assert_array_equal(tensor.read(), theirs[name].numpy())
    if encode_format != "raw":
        pytest.importorskip("ml_dtypes")
        halves = open_tensor_cache(tmp_path / "tensor-cache-b16.json").tensors["param_0"].read()
        np.testing.assert_array_equal(halves.astype("f4"), theirs["param_0"].numpy())
