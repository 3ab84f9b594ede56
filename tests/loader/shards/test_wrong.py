"""What is said when a ShardLoader cannot load."""

from __future__ import annotations

import json

import numpy as np
import pytest

from disco_magic.errors import DiscoError, PlaneAborted, UnknownName, UsageMistake, WorkerError
from tests.loader.files import cache_of, write_cache
from tests.loader.shards.made import WHOLE, files, loader_of, steps


def failing(s, call, *args):
    with pytest.raises(WorkerError) as caught:
        s.call_packed(call, *args).get_all()
    return caught.value.origin.exception


@pytest.mark.parametrize(
    ("info", "kind", "words"),
    [
        (
            {"param_0": [["test.axis", [[2, 6, 6], "float32"], 2]]},
            UnknownName,
            "did you mean 'test.axis_1' or",
        ),
        ({"parm_0": []}, UsageMistake, "there is no parameter 'parm_0'; did you mean 'param_0'"),
        (steps(4), UsageMistake, r"has shape \[4, 3, 6\], expected a first axis of 2, one part per worker"),
    ],
    ids=range(3),
)
def test_a_loader_is_not_made_of_wrong_shard_info(session, tmp_path, info, kind, words):
    s = session(2)
    path = write_cache(tmp_path, files(WHOLE))
    with pytest.raises(WorkerError, match=words) as caught:
        loader_of(s, path, info).get_all()
    assert isinstance(caught.value.origin.exception, kind)
    s.sync_all()


def test_a_loader_is_not_made_of_files_that_were_cut_short(session, tmp_path):
    s = session(2)
    path = write_cache(tmp_path, files(WHOLE))
    (tmp_path / "b.bin").write_bytes(b"1234")
    with pytest.raises(WorkerError, match=r"file b\.bin has 4 bytes, expected 1,192; it is truncated"):
        loader_of(s, path).get_all()


def test_all_parameters_must_be_numbered_without_a_gap(session, tmp_path):
    s = session(1)
    loader = loader_of(
        s,
        write_cache(tmp_path, {"f.bin": {"param_0": np.zeros(1), "param_2": np.zeros(1), "x": np.zeros(1)}}),
    )
    error = failing(s, "runtime.disco.ShardLoaderLoadAll", loader)
    assert str(error).startswith("there are 3 parameters, but none is named param_1; to load all")


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (3, "there is no parameter 3; there are 3, counted from 0"),
        (-1, "there is no parameter -1"),
        ("0", "index is '0', expected"),
        ((0, 1), "expected a whole number"),
    ],
)
@pytest.mark.parametrize("call", ["Load", "LoadParamOnWorker0"])
def test_an_index_that_is_none_is_refused(session, tmp_path, call, index, words):
    s = session(1)
    loader = loader_of(s, write_cache(tmp_path, files(WHOLE)))
    error = failing(s, f"runtime.disco.ShardLoader{call}", loader, index)
    assert isinstance(error, UsageMistake)
    assert words in str(error)


def test_a_register_without_a_loader_is_refused(session):
    error = failing(session(1), "runtime.disco.ShardLoaderLoadAll", 3)
    assert str(error) == "expected a register made by runtime.disco.ShardLoader, got int"


@pytest.mark.parametrize("call", ["ShardLoaderLoadAll", "ShardLoaderLoadParamOnWorker0"])
def test_a_damaged_file_is_found_by_its_sum_and_nobody_hangs(session, tmp_path, call):
    s = session(3)
    manifest, contents = cache_of({"f.bin": {"param_0": np.zeros(8)}})
    (tmp_path / "f.bin").write_bytes(b"1" + contents["f.bin"][1:])
    args = (str(tmp_path / "tensor-cache.json"), json.dumps(manifest), "", None)
    loader = s.call_packed("runtime.disco.ShardLoader", *args)
    more = [0] if call.endswith("0") else []
    with pytest.raises(WorkerError, match=r"f\.bin is damaged: its MD5 sum is") as caught:
        s.call_packed(f"runtime.disco.{call}", loader, *more).get_all()
    assert type(caught.value.origin.exception) is DiscoError
    assert caught.value.origin.worker == 0
    unchecked = s.call_packed("runtime.disco.ShardLoader", *args, False)
    assert s.call_packed(f"runtime.disco.{call}", unchecked, *more).get(0) is not None


def test_a_shard_function_that_fails_releases_the_others(session, tmp_path):
    def fail(whole, out):
        raise ZeroDivisionError("in the function")

    s = session(3)
    loader = loader_of(
        s,
        write_cache(tmp_path, {"f.bin": {"p": WHOLE["param_0"]}}),
        {"p": [["fail", [[3, 4, 6], "float32"]]]},
        {"fail": fail},
    )
    with pytest.raises(WorkerError, match="in the function") as caught:
        s.call_packed("runtime.disco.ShardLoaderLoadAll", loader).get_all()
    kinds = {worker: type(failure.exception) for worker, failure in caught.value.failures.items()}
    assert kinds.pop(0) is ZeroDivisionError
    assert set(kinds.values()) <= {PlaneAborted}
    assert s.run("allreduce(1)").values == [3, 3, 3]
