"""Loading parameters through a session: who gets what, what is refused, and what is left of a failure."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from queue import SimpleQueue

import numpy as np
import pytest

from disco_magic.errors import (
    DiscoError,
    MissingDependency,
    SessionClosed,
    SyncTimeout,
    UsageMistake,
    WorkerError,
    WorkerInterrupt,
    WorkerLost,
)
from disco_magic.loader import stored
from disco_magic.loader.parts import CheckFiles, LoadPart
from disco_magic.loader.plan import REPLICATE, Shard
from disco_magic.loader.progress import Progress, Watch
from disco_magic.loader.safetensors import open_safetensors
from disco_magic.loader.tally import Tally
from disco_magic.session import parameters
from tests.loader.files import write_cache, write_index, write_safetensors
from tests.session.conftest import interrupt_main

groupings = pytest.mark.parametrize(("n", "groups"), [(1, 1), (2, 1), (3, 1), (4, 2), (6, 2), (6, 3)])
WHOLE = {
    "embed.weight": np.arange(144, dtype="f4").reshape(12, 12),
    "l.0.weight": np.arange(72, dtype="f2").reshape(6, 12),
    "l.0.bias": np.arange(5, dtype="i8"),
    "scale": np.array(3.0),
    "none": np.zeros((0, 12), "f4"),
}
PLAN = {"embed.*": Shard(axis=0), "*.weight": Shard(axis=-1), "none": Shard(axis=0)}


def expected(name, rank, count):
    axes = {"embed.weight": 0, "l.0.weight": 1, "none": 0}
    return np.split(WHOLE[name], count, axes[name])[rank] if name in axes else WHOLE[name]


def check(params, n, share_of):
    """All registers hold what ``share_of(worker)``, a rank and a count, says."""
    assert list(params) == list(WHOLE)
    for name, dref in params.items():
        for worker, got in enumerate(dref.get_all()):
            wanted = expected(name, *share_of(worker))
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_array_equal(got, wanted)
    assert n == dref.session.num_workers


@pytest.fixture
def path(tmp_path):
    """A safetensors file of `WHOLE`."""
    return write_safetensors(tmp_path / "m.safetensors", WHOLE, {"format": "np"})


@pytest.fixture
def stop_at(gate, monkeypatch):
    """Stops workers at the gate whenever they have copied a block."""
    add = Tally.add

    def arrange():
        def counted(tally, worker, nbytes):
            add(tally, worker, nbytes)
            gate((worker, nbytes))

        monkeypatch.setattr(Tally, "add", counted)

    return arrange


@pytest.fixture
def waits(monkeypatch):
    """Gets something whenever a load begins to wait."""
    queue = SimpleQueue()
    take = parameters.take

    def noticed(inbox, pause_s):
        queue.put(pause_s)
        return take(inbox, pause_s)

    monkeypatch.setattr(parameters, "take", noticed)
    return queue


def registers(s):
    """Numbered registers that are still there, once all workers have done what they were told."""
    gc.collect()
    s.flush()
    s.sync_all()
    return [row.name for row in s.registers(numbered=True).rows]


# --- who gets what ---------------------------------------------------------------------------------


@groupings
@pytest.mark.parametrize("in_group", [True, False])
def test_every_worker_gets_its_part_along_the_axis_of_the_plan(session, path, n, groups, in_group):
    s = session(n, groups)
    size = n // groups if in_group else n
    params = s.load_safetensors(path, PLAN, in_group=in_group)
    check(params, n, lambda worker: (worker % size, size))
    assert params.metadata == {"format": "np"}


@groupings
@pytest.mark.parametrize("halved", [(), ("embed.weight",)])
def test_parameters_of_tvm_are_split_alike(session, tmp_path, n, groups, halved):
    s = session(n, groups)
    size = n // groups
    names = list(WHOLE)
    files = {
        "a.bin": {name: WHOLE[name] for name in names[:2]},
        "b.bin": {name: WHOLE[name] for name in names[2:]},
    }
    write_cache(tmp_path, files, halved=halved)
    check(s.load_tensor_cache(tmp_path, PLAN), n, lambda worker: (worker % size, size))


def test_without_a_plan_everybody_gets_everything(session, path):
    check(session(3).load_safetensors(str(path)), 3, lambda worker: (0, 1))


def test_parts_of_a_checkpoint_are_loaded_together(session, tmp_path):
    names = list(WHOLE)
    parts = {
        "1.safetensors": {name: WHOLE[name] for name in names[:2]},
        "2.safetensors": {name: WHOLE[name] for name in names[2:]},
    }
    write_index(tmp_path, parts)
    check(session(2).load_safetensors(tmp_path, PLAN), 2, lambda worker: (worker, 2))


def test_names_choose_what_is_loaded(session, path):
    # The plan is for the whole model: patterns of what is left out are no mistake.
    params = session(2).load_safetensors(path, PLAN | {"scale": REPLICATE}, names=["l.0.*", "scale"])
    assert list(params) == ["l.0.weight", "l.0.bias", "scale"]
    assert params["l.0.weight"].get(1).shape == (6, 6)


def test_nothing_can_be_loaded_too(session, path):
    assert dict(session(2).load_safetensors(path, names=[])) == {}


def test_loaded_registers_are_ordinary_ones(session, path):
    s = session(2)
    params = s.load_safetensors(path, {"l.0.weight": Shard(axis=0)})
    s["w"] = params["l.0.weight"]
    del params
    assert (
        s.run("w += worker_id\nw.flags.owndata, w.flags.writeable, float(allreduce(w).sum())").values
        == [(True, True, float(WHOLE["l.0.weight"].sum() + 36))] * 2
    )


def test_what_workers_write_stays_out_of_the_file_and_of_each_other(session, path):
    s = session(2)
    s["x"] = s.load_safetensors(path)["embed.weight"]
    s.run("if worker_id: x[:] = -1")
    assert s["x"].get(0)[0, 1] == 1
    assert s.load_safetensors(path)["embed.weight"].get(1)[0, 1] == 1


def test_registers_die_with_the_mapping(session, path):
    s = session(2)
    params = s.load_safetensors(path)
    assert len(registers(s)) == len(WHOLE)
    kept = params["scale"]
    del params
    assert registers(s) == [f"#{kept.register}"]


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_many_tensors_are_loaded_in_batches(session, tmp_path, monkeypatch, batch):
    monkeypatch.setattr(parameters, "_BATCH", batch)
    arrays = {f"t{i}": np.full(4, i) for i in range(7)}
    s = session(2)
    params = s.load_safetensors(write_safetensors(tmp_path / "m.safetensors", arrays), {"*": Shard(0)})
    assert [int(dref.get(1)[0]) for dref in params.values()] == list(range(7))


def test_a_session_that_may_not_run_ahead_loads_too(session, path):
    check(session(2, max_outstanding=1).load_safetensors(path, PLAN), 2, lambda worker: (worker, 2))


def test_a_model_in_bfloat16_is_loaded_as_it_is(session, tmp_path):
    kinds = pytest.importorskip("ml_dtypes")
    array = np.arange(8).astype(kinds.bfloat16)
    params = session(2).load_safetensors(
        write_safetensors(tmp_path / "m.safetensors", {"x": array}), {"x": Shard()}
    )
    assert params["x"].get(1).dtype == array.dtype
    assert params["x"].get(1).tolist() == [4, 5, 6, 7]
    assert "bfloat16" in repr(params)


# --- what is seen meanwhile ------------------------------------------------------------------------


@pytest.mark.parametrize(("progress", "shown"), [(True, True), (None, False), (False, False)])
def test_progress_is_shown_if_asked_for_or_after_a_second(  # noqa: PLR0917 - fixtures
    session, path, capsys, monkeypatch, progress, shown
):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    session(2).load_safetensors(path, progress=progress)
    assert ("load_safetensors: 100 % of" in capsys.readouterr().err) == shown


def test_progress_counts_the_files_whose_sums_are_checked(session, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    write_cache(tmp_path, {"f.bin": {"a": np.zeros(128, "f8")}})
    s = session(2)
    s.load_tensor_cache(tmp_path, progress=True)
    assert capsys.readouterr().err.endswith("100 % of 3 KiB\n")
    s.load_tensor_cache(tmp_path, progress=True, check_md5=False)
    assert capsys.readouterr().err.endswith("100 % of 2 KiB\n")


def test_the_waiter_looks_while_workers_read(  # noqa: PLR0917 - fixtures
    session, path, monkeypatch, stop_at, gate, background
):
    seen = SimpleQueue()
    monkeypatch.setattr(Progress, "at", lambda progress, done, elapsed_s: seen.put(done))
    s = session(1)
    stop_at()
    result = background(s.load_safetensors, path)
    first = WHOLE["embed.weight"].nbytes
    assert gate.arrived() == [(0, first)]
    while (done := seen.get(timeout=60)) == 0:
        continue
    assert done == first
    gate.open()
    check(result(), 1, lambda worker: (0, 1))


# --- what is refused before anything is sent -------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s, p: s.load_safetensors(p.parent / "x.safetensors"), "cannot be read: No such file"),
        (lambda s, p: s.load_safetensors(p, {"emb": Shard()}), "plan: no tensor's name fits 'emb'"),
        (lambda s, p: s.load_safetensors(p, names=["embd.weight"]), r"did you mean 'embed\.weight'"),
        (
            lambda s, p: s.load_safetensors(p, {"*bias": Shard()}),
            "1 of 5 tensors cannot be split evenly among 2 workers",
        ),
        (lambda s, p: s.load_safetensors(p, timeout="soon"), "timeout is 'soon', expected a number"),
        (lambda s, p: s.load_tensor_cache(p.parent), "it is no parameter folder of TVM"),
    ],
    ids=range(6),
)
def test_an_impossible_load_is_refused_at_once(session, path, call, words):
    s = session(2)
    before = s.ledger.seq
    with pytest.raises(UsageMistake, match=words):
        call(s, path)
    assert s.ledger.seq == before


def test_a_missing_package_is_named_at_once(session, tmp_path, monkeypatch):
    kinds = pytest.importorskip("ml_dtypes")
    path = write_safetensors(tmp_path / "m.safetensors", {"x": np.zeros(1, kinds.bfloat16)})
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    s = session(1)
    with pytest.raises(MissingDependency, match=r"tensor 'x': .* pip install \"disco-magic\[loader\]\""):
        s.load_safetensors(path)


def test_a_worker_cannot_load_into_its_own_session(session, path):
    s = session(2)
    with pytest.raises(WorkerError, match="load_safetensors was called on worker 0 of the same session"):
        s.call_packed(lambda: s.load_safetensors(path), workers=(0,)).get(0)


def test_a_closed_session_loads_nothing(session, path):
    s = session(2)
    s.shutdown()
    with pytest.raises(SessionClosed):
        s.load_safetensors(path)


# --- nothing of a failure stays --------------------------------------------------------------------


def test_what_failed_before_is_raised_before_anything_is_read(session, path):
    s = session(2)
    failed = s.call_packed(int, "no number")
    with pytest.raises(WorkerError, match="no number"):
        s.load_safetensors(path)
    del failed
    assert registers(s) == []


def test_a_file_that_changes_under_way_fails_on_all_workers(session, path, gate, background, waits):
    s = session(3)
    held = s.call_packed(gate)
    result = background(s.load_safetensors, path, PLAN)
    gate.arrived(3)
    waits.get(timeout=60)  # the headers were read
    path.write_bytes(path.read_bytes() + b"more")
    gate.open()
    with pytest.raises(
        WorkerError,
        match=r"load 'embed\.weight' failed on worker .*\n.*was changed after it had been checked",
    ) as caught:
        result()
    assert all(isinstance(f.exception, DiscoError) for f in caught.value.failures.values())
    assert all(f.exception.__traceback__ is None for f in caught.value.failures.values())
    del held
    assert registers(s) == []
    s.sync_all()


def test_a_damaged_file_is_found_by_its_sum(session, tmp_path):
    listing = write_cache(tmp_path, {"a.bin": {"a": np.zeros(4)}, "b.bin": {"b": np.zeros(4)}})
    (tmp_path / "b.bin").write_bytes(bytes(31) + b"1")
    s = session(2)
    with pytest.raises(WorkerError, match=r"check 2 files failed on worker 1\n.*b\.bin is damaged") as caught:
        s.load_tensor_cache(listing)
    assert registers(s) == []
    assert s.load_tensor_cache(listing, check_md5=False)["b"].get(0)[-1] != 0
    assert list(caught.value.failures) == [1]


def test_the_others_leave_out_what_is_still_to_come_when_one_fails(session, path, monkeypatch, stop_at, gate):
    read = []
    copy_to = stored.StoredTensor.copy_to

    def counted(tensor, out, axis, rank, count):
        read.append(tensor.name)
        if tensor.name == "l.0.weight":
            raise DiscoError("no more")
        return copy_to(tensor, out, axis, rank, count)

    monkeypatch.setattr(stored.StoredTensor, "copy_to", counted)
    s = session(1)
    with pytest.raises(WorkerError, match="no more"):
        s.load_safetensors(path)
    assert read == ["embed.weight", "l.0.weight"]
    assert registers(s) == []


@pytest.fixture
def under_way(monkeypatch, gate):
    """Does something in the waiting thread when all workers of a load have come to the gate."""

    def arrange(workers, act):
        take, answered = parameters.take, []

        def acting(inbox, pause_s):
            if answered:
                gate.arrived(workers)
                act()
            item = take(inbox, pause_s)
            answered.append(item)  # the first one answers the wait for what was sent before
            return item

        monkeypatch.setattr(parameters, "take", acting)

    return arrange


def test_a_load_that_takes_too_long_is_stopped_and_says_where_it_was(  # noqa: PLR0917 - fixtures
    session, path, monkeypatch, stop_at, gate, under_way
):
    s = session(2)
    stop_at()
    under_way(2, lambda: monkeypatch.setattr(Watch, "overdue", True))
    with pytest.raises(SyncTimeout, match=r"ran out of time with .* of 1\.\d+ KiB loaded; its") as caught:
        s.load_safetensors(path, timeout=60)
    assert "executing call load 'embed.weight'" in str(caught.value)
    gate.open()
    assert registers(s) == []


def test_a_load_waits_no_longer_than_it_may(session, path, gate):
    s = session(2)
    held = s.call_packed(gate)
    with pytest.raises(SyncTimeout, match="load_safetensors ran out of time with 0 B of"):
        s.load_safetensors(path, timeout=0)
    gate.open()
    del held
    assert registers(s) == []


def test_ctrl_c_stops_a_load_under_way(session, path, monkeypatch, stop_at, gate, under_way):  # noqa: PLR0917 - fixtures
    s = session(2)
    stop_at()
    under_way(2, lambda: signal.raise_signal(signal.SIGINT))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(
        KeyboardInterrupt, match=r"was interrupted with .* loaded; its registers were dropped"
    ):
        s.load_safetensors(path)
    assert signal.getsignal(signal.SIGINT) is before
    monkeypatch.undo()
    gate.open()
    assert registers(s) == []
    check(s.load_safetensors(path), 2, lambda worker: (0, 1))


def test_ctrl_c_ends_the_wait_for_what_was_sent_before_a_load(session, path, gate):
    s = session(2)
    held = s.call_packed(gate)
    presser = threading.Thread(target=interrupt_main)
    presser.start()
    with pytest.raises(KeyboardInterrupt, match="load_safetensors was interrupted with 0 B of"):
        s.load_safetensors(path)
    presser.join()
    gate.open()
    del held
    assert registers(s) == []


def test_ctrl_c_as_the_last_worker_is_done_is_not_lost(session, path, monkeypatch):
    s = session(1)
    raise_failures = s.raise_failures
    rounds = []

    def interrupted():
        rounds.append(1)
        if len(rounds) == 2:
            signal.raise_signal(signal.SIGINT)
        raise_failures()

    monkeypatch.setattr(s, "raise_failures", interrupted)
    with pytest.raises(KeyboardInterrupt, match="load_safetensors was interrupted with"):
        s.load_safetensors(path)


def test_an_interrupted_session_ends_a_load(session, path, stop_at, gate, background):
    s = session(2)
    stop_at()
    result = background(s.load_safetensors, path)
    gate.arrived(2)
    s.interrupt()
    gate.open()
    with pytest.raises(WorkerError) as caught:
        result()
    assert {type(f.exception) for f in caught.value.failures.values()} == {WorkerInterrupt}
    assert registers(s) == []


def test_a_load_whose_failure_another_thread_took_does_not_pretend_to_be_whole(session, path, monkeypatch):
    s = session(1)
    monkeypatch.setattr(s, "raise_failures", lambda: None)
    monkeypatch.setattr(
        stored.StoredTensor, "copy_to", lambda *_: (_ for _ in ()).throw(DiscoError("no more"))
    )
    with pytest.raises(
        DiscoError, match="load_safetensors failed on a worker, as another wait of this session has said"
    ):
        s.load_safetensors(path)


def test_a_lost_worker_ends_a_load(session, path, monkeypatch):
    s = session(2)
    monkeypatch.setattr(parameters, "take", lambda inbox, pause_s: parameters.Lost(1, 0, "it was unplugged"))
    with pytest.raises(WorkerLost, match="worker 1 is gone: it was unplugged"):
        s.load_safetensors(path)


def test_stopped_parts_are_none_and_no_failure(session, path):
    tensor = open_safetensors(path).tensors["embed.weight"]
    tally = Tally(2)
    tally.stop()
    s = session(2)
    assert s.call_packed(LoadPart(tensor, None, True, tally)).get_all() == [None, None]
    assert s.call_packed(CheckFiles((tensor.file,) * 2, tally)).get_all() == [None, None]
    assert tally.done == 2 * tensor.file.nbytes  # a block each, and then they looked
