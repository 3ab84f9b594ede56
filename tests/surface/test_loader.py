"""Rows about parameters: `ShardLoader` and its verbs by Disco's names, and ours for safetensors files."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

import disco_magic as disco
from tests.surface.conftest import groupings, who


@pytest.fixture
def functions():
    """Shard functions by name: a matrix into parts of its columns, and one that only doubles."""

    def columns(x, parts, out):
        out[...] = x.reshape(x.shape[0], parts, -1).transpose(1, 0, 2)

    def double(x, out):
        out[...] = 2 * x

    disco.register_func("surface.columns", columns)
    disco.register_func("surface.double", double)
    yield
    disco.remove_func("surface.columns")
    disco.remove_func("surface.double")


def write_folder(path, arrays):
    """Parameters as TVM's tools leave them: a list and a file."""
    records, data = [], b""
    for name, array in arrays.items():
        records.append(
            {
                "name": name,
                "shape": list(array.shape),
                "dtype": str(array.dtype),
                "format": "raw",
                "nbytes": array.nbytes,
                "byteOffset": len(data),
            }
        )
        data += array.tobytes()
    file = {"dataPath": "params_shard_0.bin", "format": "raw-shard", "nbytes": len(data), "records": records}
    (path / "params_shard_0.bin").write_bytes(data)
    (path / "tensor-cache.json").write_text(json.dumps({"metadata": {}, "records": [file]}))
    return str(path / "tensor-cache.json")


def write_safetensors(path, arrays):
    header, data = {}, b""
    for name, array in arrays.items():
        end = len(data) + array.nbytes
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), end]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def matrix(columns):
    return np.arange(3 * columns, dtype="float32").reshape(3, columns)


def by_columns(parts, width):
    """Shard info for parameter 0: so many parts of so many columns."""
    return json.dumps({"param_0": [["surface.columns", [[parts, 3, width], "float32"], parts]]})


def loader_of(s, path, shard_info=""):
    return s.get_global_func("runtime.disco.ShardLoader")(path, "", shard_info, None)


def call(s, verb, loader, *args):
    return s.call_packed(f"runtime.disco.ShardLoader{verb}", loader, *args)


# --- ShardLoader -----------------------------------------------------------------------------------


def test_shard_loader(session, tmp_path):
    s = session(2)
    path = write_folder(tmp_path, {"param_0": matrix(4)})
    content = (tmp_path / "tensor-cache.json").read_text()
    for metadata in ("", content):
        loader = s.get_global_func("runtime.disco.ShardLoader")(path, metadata, "", None)
        assert call(s, "Load", loader, 0).get(1).tolist() == matrix(4).tolist()


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(
    ("name", "shard_info", "text"),
    [
        ("nowhere.json", "", "nowhere.json"),
        ("tensor-cache.json", '{"param_9": []}', "there is no parameter 'param_9'"),
        ("tensor-cache.json", by_columns(3, 1), "expected a first axis of 2, one part per worker"),
        ("tensor-cache.json", '{"param_0": [["surface.nobody", [[2, 3], "float32"]]]}', "surface.nobody"),
    ],
    ids=["path", "parameter", "parts", "function"],
)
def test_shard_loader_that_cannot_be_meant_is_an_error(session, tmp_path, name, shard_info, text):
    s = session(2)
    write_folder(tmp_path, {"param_0": matrix(4)})
    loader_of(s, str(tmp_path / name), shard_info)
    with pytest.raises(disco.WorkerError, match=text) as caught:
        s.sync_all()
    assert sorted(caught.value.failures) == [0, 1]
    assert s.call_packed(who).get_all() == [0, 1]


@groupings
def test_shard_loader_load(session, functions, tmp_path, n, groups):
    s = session(n, groups)
    size = n // groups
    path = write_folder(tmp_path, {"param_0": matrix(2 * size)})
    part = call(s, "Load", loader_of(s, path, by_columns(size, 2)), 0)
    for worker, value in enumerate(part.get_all()):
        rank = worker % size
        assert value.tolist() == matrix(2 * size)[:, 2 * rank : 2 * rank + 2].tolist()


@groupings
def test_shard_loader_load_without_a_shard_function_gives_everybody_the_whole(session, tmp_path, n, groups):
    s = session(n, groups)
    path = write_folder(tmp_path, {"param_0": matrix(4), "param_1": np.array([5], "int64")})
    loader = loader_of(s, path)
    assert [value.tolist() for value in call(s, "Load", loader, 1).get_all()] == [[5]] * n
    assert [value.tolist() for value in call(s, "Load", loader, 0).get_all()] == [matrix(4).tolist()] * n


def test_shard_loader_load_applies_shard_functions_in_order(session, functions, tmp_path):
    s = session(2)
    path = write_folder(tmp_path, {"param_0": matrix(4)})
    steps = [
        ["surface.double", [[3, 4], "float32"]],
        ["surface.columns", [[2, 3, 2], "float32"], 2],
    ]
    part = call(s, "Load", loader_of(s, path, json.dumps({"param_0": steps})), 0)
    assert [value.tolist() for value in part.get_all()] == [
        (2 * matrix(4)[:, :2]).tolist(),
        (2 * matrix(4)[:, 2:]).tolist(),
    ]


def test_shard_loader_load_finds_shard_functions_in_a_module(session, tmp_path):
    s = session(2)
    path = write_folder(tmp_path, {"param_0": np.arange(4, dtype="float32")})
    code = tmp_path / "model.py"
    code.write_text("def halves(x, out): out[...] = x.reshape(2, 2)\n")
    info = json.dumps({"param_0": [["halves", [[2, 2], "float32"]]]})
    loader = s.get_global_func("runtime.disco.ShardLoader")(path, "", info, s.load_vm_module(code))
    assert [value.tolist() for value in call(s, "Load", loader, 0).get_all()] == [[0, 1], [2, 3]]


@groupings
def test_shard_loader_load_all(session, functions, tmp_path, n, groups):
    s = session(n, groups)
    size = n // groups
    arrays = {"param_1": np.array([7], "int32"), "param_0": matrix(size)}  # listed in another order
    loader = loader_of(s, write_folder(tmp_path, arrays), by_columns(size, 1))
    for worker, (first, second) in enumerate(call(s, "LoadAll", loader).get_all()):
        assert first.tolist() == matrix(size)[:, [worker % size]].tolist()
        assert second.tolist() == [7]


def presharded(size):
    return {
        f"param_{number}_shard-{part + 1}-of-{size}": np.array([number, part], "int32")
        for number in range(2)
        for part in range(size)
    }


@groupings
def test_shard_loader_load_presharded(session, tmp_path, n, groups):
    s = session(n, groups)
    size = n // groups
    loader = loader_of(s, write_folder(tmp_path, presharded(size)))
    values = call(s, "LoadPresharded", loader, 1).get_all()
    assert [value.tolist() for value in values] == [[1, worker % size] for worker in range(n)]


@groupings
def test_shard_loader_load_all_presharded(session, tmp_path, n, groups):
    s = session(n, groups)
    size = n // groups
    loader = loader_of(s, write_folder(tmp_path, presharded(size)))
    for worker, values in enumerate(call(s, "LoadAllPresharded", loader).get_all()):
        assert [value.tolist() for value in values] == [[0, worker % size], [1, worker % size]]


def test_shard_loader_load_presharded_for_another_number_of_workers_is_an_error(session, tmp_path):
    s = session(2)
    call(s, "LoadPresharded", loader_of(s, write_folder(tmp_path, presharded(3))), 0)
    with pytest.raises(disco.WorkerError, match="was not cut for 2 workers"):
        s.sync_all()


@groupings
def test_shard_loader_load_param_on_worker_0(session, tmp_path, n, groups):
    s = session(n, groups)
    size = n // groups
    loader = loader_of(s, write_folder(tmp_path, {"param_0": matrix(4)}))
    for worker, value in enumerate(call(s, "LoadParamOnWorker0", loader, 0).get_all()):
        assert (value.shape, value.dtype) == ((3, 4), "float32")
        if worker % size == 0:
            assert value.tolist() == matrix(4).tolist()


@pytest.mark.parametrize("verb", ["Load", "LoadPresharded", "LoadParamOnWorker0"])
def test_shard_loader_load_of_a_parameter_that_is_not_there_is_an_error(session, tmp_path, verb):
    s = session(2)
    arrays = presharded(2) if verb == "LoadPresharded" else {"param_0": matrix(4), "param_1": matrix(2)}
    call(s, verb, loader_of(s, write_folder(tmp_path, arrays)), 2)
    with pytest.raises(disco.WorkerError, match="there is no parameter 2; there are 2, counted from 0"):
        s.sync_all()


# --- ours ------------------------------------------------------------------------------------------


@groupings
@pytest.mark.parametrize("axis", [0, 1])
def test_load_safetensors(session, tmp_path, n, groups, axis):
    s = session(n, groups)
    size = n // groups
    whole = np.arange(4.0 * size * size, dtype="float32").reshape(2 * size, 2 * size)
    path = write_safetensors(tmp_path / "model.safetensors", {"layer.weight": whole, "bias": whole[0]})
    loaded = s.load_safetensors(path, {"*.weight": disco.Shard(axis), "*": disco.REPLICATE})
    assert sorted(loaded) == ["bias", "layer.weight"]
    parts = np.split(whole, size, axis)
    for worker, value in enumerate(loaded["layer.weight"].get_all()):
        assert value.tolist() == parts[worker % size].tolist()
    assert [value.tolist() for value in loaded["bias"].get_all()] == [whole[0].tolist()] * n


def test_load_tensor_cache(session, tmp_path):
    s = session(2)
    write_folder(tmp_path, {"w": matrix(4), "b": np.ones(2, "float32")})
    loaded = s.load_tensor_cache(tmp_path, {"w": disco.Shard(1)})
    halves = np.split(matrix(4), 2, 1)
    assert [value.tolist() for value in loaded["w"].get_all()] == [half.tolist() for half in halves]
    assert [value.tolist() for value in loaded["b"].get_all()] == [[1, 1]] * 2
