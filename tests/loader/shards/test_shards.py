"""Disco's ShardLoader through sessions: what every worker gets."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.loader.files import write_cache
from tests.loader.shards.made import WHOLE, expected, files, loader_of, same, steps

groupings = pytest.mark.parametrize(("n", "groups"), [(1, 1), (2, 1), (3, 1), (4, 2), (6, 2), (6, 3)])


@groupings
def test_all_parameters_are_cut_by_the_first_worker_of_each_group(session, tmp_path, n, groups):
    s = session(n, groups)
    size = n // groups
    loader = loader_of(s, write_cache(tmp_path, files(WHOLE)), steps(size))
    values = s.call_packed("runtime.disco.ShardLoaderLoadAll", loader).get_all()
    for worker, got in enumerate(values):
        same(got, expected(worker % size, size))


@groupings
def test_one_parameter_is_found_by_its_place_in_the_list(session, tmp_path, n, groups):
    s = session(n, groups)
    size = n // groups
    loader = loader_of(s, write_cache(tmp_path, files(WHOLE)), steps(size))
    for place, number in enumerate((1, 2, 0)):
        for index in (place, [place], (place,)):
            values = s.call_packed("runtime.disco.ShardLoaderLoad", loader, index).get_all()
            same(values, [expected(worker % size, size)[number] for worker in range(n)])


def test_parameters_stored_as_bfloat16_are_widened_before_they_are_cut(session, tmp_path):
    s = session(2)
    loader = loader_of(s, write_cache(tmp_path, files(WHOLE), halved=("param_0",)), steps(2))
    values = s.call_packed("runtime.disco.ShardLoaderLoadAll", loader).get_all()
    for worker, got in enumerate(values):
        same(got, expected(worker, 2))


def test_parameters_need_not_lie_at_multiples_of_their_size(session, tmp_path):
    s = session(2)
    arrays = {"odd": np.zeros(3, "i1"), "p": WHOLE["param_0"]}
    info = {"p": steps(2)["param_0"]}
    loader = loader_of(s, write_cache(tmp_path, {"f.bin": arrays}), info)
    same(s.call_packed("runtime.disco.ShardLoaderLoad", loader, 1).get_all(), np.split(arrays["p"], 2))


def test_parameters_without_elements_and_axes_are_handed_out(session, tmp_path):
    s = session(2)
    arrays = {"none": np.zeros((4, 0), "f4"), "one": np.array(3.0), "empty": np.zeros((0, 2), "f4")}
    info = {"none": [["test.axis_0", [[2, 2, 0], "float32"], 2]]}
    loader = loader_of(s, write_cache(tmp_path, {"f.bin": arrays}), info)
    values = s.call_packed("runtime.disco.ShardLoaderLoadAll", loader).get_all()
    for got in values:
        same(got, [np.zeros((2, 0), "f4"), arrays["one"], arrays["empty"]])


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn"])
def test_parameters_of_ml_dtypes_are_cut_and_broadcast(session, tmp_path, kind):
    kinds = pytest.importorskip("ml_dtypes")
    s = session(2)
    array = np.arange(12).reshape(4, 3).astype(getattr(kinds, kind))
    info = {"a": [["test.axis_0", [[2, 2, 3], kind], 2]]}
    loader = loader_of(s, write_cache(tmp_path, {"f.bin": {"a": array, "b": array}}), info)
    values = s.call_packed("runtime.disco.ShardLoaderLoadAll", loader).get_all()
    for worker, got in enumerate(values):
        same(got, [np.split(array, 2)[worker], array])


def test_what_a_function_writes_to_its_input_stays_out_of_the_file(session, tmp_path):
    s = session(2)
    path = write_cache(tmp_path, {"f.bin": {"p": WHOLE["param_0"]}})
    before = (tmp_path / "f.bin").read_bytes()
    loader = loader_of(s, path, {"p": [["test.spoilt", [[2, 6, 6], "float32"], 2]]})
    assert not s.call_packed("runtime.disco.ShardLoaderLoad", loader, 0).get(1).any()
    assert (tmp_path / "f.bin").read_bytes() == before


def test_functions_come_from_a_module_if_it_has_them(session, tmp_path):
    s = session(2)
    module = tmp_path / "cutting.py"
    info = json.dumps({"p": [["halve", [[2, 6, 6], "float32"]]]})
    module.write_text(
        f"def get_shard_info():\n    return {info!r}\n"
        "def halve(whole, out):\n    out[:] = whole.reshape(out.shape)\n"
    )
    loader = loader_of(
        s, write_cache(tmp_path, {"f.bin": {"p": WHOLE["param_0"]}}), "", s.load_vm_module(module)
    )
    same(s.call_packed("runtime.disco.ShardLoaderLoad", loader, 0).get_all(), np.split(WHOLE["param_0"], 2))


def test_the_folder_alone_is_enough(session, tmp_path):
    s = session(2)
    write_cache(tmp_path, files(WHOLE))
    loader = s.call_packed("runtime.disco.ShardLoader", str(tmp_path))
    same(s.call_packed("runtime.disco.ShardLoaderLoadAll", loader).get(1), list(WHOLE.values()))
    assert repr(loader.get(0)) == f"<ShardLoader of 3 parameters in {tmp_path / 'tensor-cache.json'}>"


def test_parameters_that_are_not_numbered_come_in_the_order_of_the_list(session, tmp_path):
    s = session(1)
    write_cache(tmp_path, {"f.bin": {"w": WHOLE["param_1"], "b": WHOLE["param_0"]}})
    loader = s.call_packed("runtime.disco.ShardLoader", str(tmp_path))
    same(
        s.call_packed("runtime.disco.ShardLoaderLoadAll", loader).get(0), [WHOLE["param_1"], WHOLE["param_0"]]
    )


@pytest.mark.parametrize(("n", "groups", "firsts"), [(2, 1, [0]), (4, 2, [0, 2])])
def test_a_whole_parameter_is_loaded_on_the_first_worker(session, tmp_path, n, groups, firsts):
    s = session(n, groups)
    loader = loader_of(s, write_cache(tmp_path, files(WHOLE)), steps(2))
    values = s.call_packed("runtime.disco.ShardLoaderLoadParamOnWorker0", loader, 2).get_all()
    assert [(v.shape, v.dtype) for v in values] == [((12, 12), np.dtype("f8"))] * n
    for first in firsts:
        np.testing.assert_array_equal(values[first], WHOLE["param_2"])
