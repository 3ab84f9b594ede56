"""Disco's ShardLoader through sessions: what every worker gets, and what is said when it cannot."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import DiscoError, PlaneAborted, UnknownName, UsageMistake, WorkerError
from disco_magic.loader import shards
from disco_magic.loader.spilling import spilled
from tests.loader.files import cache_of, write_cache

groupings = pytest.mark.parametrize(("n", "groups"), [(1, 1), (2, 1), (3, 1), (4, 2), (6, 2), (6, 3)])


def axis_0(whole, parts, out):
    out[:] = whole.reshape(parts, *out.shape[1:])


def axis_1(whole, parts, out):
    out[:] = whole.reshape(whole.shape[0], parts, -1).transpose(1, 0, 2)


def negated(whole, out):
    np.negative(whole, out=out)


def spoilt(whole, parts, out):
    whole[:] = 0
    axis_0(whole, parts, out)


@pytest.fixture(autouse=True)
def registered():
    """The shard functions that the tests use."""
    functions = {"test.axis_0": axis_0, "test.axis_1": axis_1, "test.negated": negated, "test.spoilt": spoilt}
    for name, function in functions.items():
        disco.register_func(name, function, override=True)
    yield
    for name in functions:
        disco.remove_func(name)


WHOLE = {
    "param_0": np.arange(72, dtype="f4").reshape(12, 6),
    "param_1": np.arange(5, dtype="i8"),
    "param_2": np.arange(144, dtype="f8").reshape(12, 12),
}


def files(arrays):
    """Two files, so that a loader changes between them; the list begins with the last parameters."""
    names = list(arrays)
    return {"b.bin": {name: arrays[name] for name in names[1:]}, "a.bin": {names[0]: arrays[names[0]]}}


def steps(n):
    """Parameter 0 is cut along axis 0, parameter 2 negated and cut along axis 1."""
    return {
        "param_0": [["test.axis_0", [[n, 12 // n, 6], "float32"], n]],
        "param_2": [
            ["test.negated", [[12, 12], "float64"]],
            ["test.axis_1", [[n, 12, 12 // n], "float64"], n],
        ],
    }


def expected(rank, n):
    return [
        np.split(WHOLE["param_0"], n)[rank],
        WHOLE["param_1"],
        np.split(-WHOLE["param_2"], n, axis=1)[rank],
    ]


def loader_of(s, path, info="", *more):
    return s.call_packed(
        "runtime.disco.ShardLoader", str(path), path.read_text(), info and json.dumps(info), *more
    )


def same(got, wanted):
    assert [(array.dtype, array.shape) for array in got] == [(array.dtype, array.shape) for array in wanted]
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.flags.writeable


# --- what workers get ------------------------------------------------------------------------------


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


# --- cut beforehand --------------------------------------------------------------------------------


def presharded(count, by_shard=True):
    parts = {name: np.split(array, count) for name, array in WHOLE.items() if name != "param_1"}
    order = [(name, rank) for rank in range(count) for name in parts] if by_shard else None
    order = order or [(name, rank) for name in parts for rank in range(count)]
    return parts, {f"{name}_shard-{rank + 1}-of-{count}": parts[name][rank] for name, rank in order}


@pytest.mark.parametrize("by_shard", [True, False])
@pytest.mark.parametrize(("n", "groups"), [(1, 1), (2, 1), (3, 1), (4, 2), (6, 2)])
def test_parts_cut_beforehand_are_read_by_their_own_worker(session, tmp_path, n, groups, by_shard):
    s = session(n, groups)
    size = n // groups
    parts, arrays = presharded(size, by_shard)
    arrays = {name.replace("param_2", "param_1"): array for name, array in arrays.items()}
    # Shard info of the whole model does no harm here.
    loader = loader_of(s, write_cache(tmp_path, {"f.bin": arrays}), {"param_0": steps(size)["param_0"]})
    everything = s.call_packed("runtime.disco.ShardLoaderLoadAllPresharded", loader).get_all()
    second = s.call_packed("runtime.disco.ShardLoaderLoadPresharded", loader, 1).get_all()
    for worker in range(n):
        mine = [parts["param_0"][worker % size], parts["param_2"][worker % size]]
        same(everything[worker], mine)
        same([second[worker]], mine[1:])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (
            {"param_0": np.zeros(2)},
            r"'param_0' was not cut for 2 workers, expected a name like <name>_shard-1-of-2",
        ),
        (presharded(3)[1], "'param_0_shard-1-of-3' was not cut for 2 workers"),
        (
            {"a_shard-1-of-2": np.zeros(2), "a_shard-2-of-2": np.zeros(2), "b_shard-1-of-2": np.zeros(2)},
            "part 2 of 2 is missing of 1 parameters: b",
        ),
    ],
    ids=["whole", "for others", "missing"],
)
def test_parts_that_do_not_fit_the_workers_are_refused(session, tmp_path, arrays, words):
    s = session(2)
    loader = loader_of(s, write_cache(tmp_path, {"f.bin": arrays}))
    with pytest.raises(WorkerError, match=words) as caught:
        s.call_packed("runtime.disco.ShardLoaderLoadAllPresharded", loader).get_all()
    assert isinstance(caught.value.origin.exception, UsageMistake)


# --- what is wrong ---------------------------------------------------------------------------------


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
    with pytest.raises(WorkerError, match=r"file b\.bin has 4 bytes, expected 1,192; it was cut short"):
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


# --- memory ----------------------------------------------------------------------------------------


ROWS = ["test.axis_0", [[2, 512, 256], "float32"], 2]
MINUS = ["test.negated", [[1024, 256], "float32"]]


@pytest.mark.parametrize("halved", [False, True], ids=["stored", "halved"])
@pytest.mark.parametrize("cut", [[], [ROWS], [MINUS, ROWS], [MINUS, MINUS, ROWS]], ids=len)
def test_worker_0_holds_one_parameter_at_most_beyond_its_own_parts(session, tmp_path, cut, halved):
    nbytes, count = 2**20, 6
    arrays = {f"param_{i}": np.full((1024, 256), i, "f4") for i in range(count)}
    path = write_cache(tmp_path, {"f.bin": arrays}, halved=arrays if halved else ())
    s = session(2)
    loader = loader_of(s, path, dict.fromkeys(arrays, cut) if cut else "")
    s.sync_all()
    del arrays
    tracemalloc.start()
    try:
        loaded = s.call_packed("runtime.disco.ShardLoaderLoadAll", loader)
        s.sync_all()
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept > count * nbytes * (1 if cut else 2)
    assert peak - kept < nbytes * (1.2 if cut else 0.2)
    assert loaded.get(1)[5][0, 0] == (-5 if len(cut) == 2 else 5)


def test_what_is_small_beside_the_largest_parameter_needs_no_file(session, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(shards, "spilled", lambda *given: made.append(given[0]) or spilled(*given))
    arrays = {
        "large": np.ones((4, 64), "f4"),
        "small": np.ones((4, 32), "f4"),
        "less": np.ones((4, 33), "f4"),
    }
    info = {
        name: [["test.negated", [[4, n], "float32"]], ["test.axis_0", [[2, 2, n], "float32"], 2]]
        for name, n in (("large", 64), ("small", 32), ("less", 33))
    }
    s = session(2)
    loader = loader_of(s, write_cache(tmp_path, {"f.bin": arrays}), info)
    values = s.call_packed("runtime.disco.ShardLoaderLoadAll", loader).get_all()
    for got in values:
        same(got, [-np.ones((2, n), "f4") for n in (64, 32, 33)])
    # Input and output of 32 columns are together no more than 64, of 33 they are.
    assert made == [(4, 64), (4, 33)]


def test_a_parameter_that_lies_oddly_is_copied_to_where_compiled_functions_take_it_as_it_is(
    session, tmp_path
):
    seen = []

    def look(whole, out):
        seen.append(whole.ctypes.data % 64)
        out[:] = whole.reshape(out.shape)

    s = session(2)
    arrays = {"odd": np.zeros(1, "f4"), "p": np.ones((4, 64), "f4")}
    info = {"p": [["look", [[2, 2, 64], "float32"]]]}
    loader = loader_of(s, write_cache(tmp_path, {"f.bin": arrays}), info, {"look": look})
    same(s.call_packed("runtime.disco.ShardLoaderLoad", loader, 1).get_all(), [np.ones((2, 64), "f4")] * 2)
    assert seen == [0]
