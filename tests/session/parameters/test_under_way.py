"""Parameters while they are loaded: what is seen of it, and that nothing stays of a load that fails."""

from __future__ import annotations

import os
import signal
import sys
import threading
from itertools import count
from queue import Empty, SimpleQueue

import numpy as np
import pytest

from disco_magic.core.messages import Lost
from disco_magic.errors import DiscoError, SyncTimeout, WorkerError, WorkerInterrupt, WorkerLost
from disco_magic.loader import parts, reading, safetensors, stored
from disco_magic.loader.parts import CheckFiles, LoadPart
from disco_magic.loader.progress import Tally, Watch
from disco_magic.loader.safetensors import open_safetensors
from disco_magic.session import dispatch
from tests.conftest import until
from tests.loader.files import write_cache
from tests.loader.reads.part import descriptors
from tests.loader.test_spilling import on_linux
from tests.session.conftest import interrupt_main
from tests.session.parameters.conftest import PLAN, WHOLE, check, registers


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
    take = dispatch.take

    def noticed(*given):
        queue.put(given)
        return take(*given)

    monkeypatch.setattr(dispatch, "take", noticed)
    return queue


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
    monkeypatch.setattr(Watch, "look", lambda watch: seen.put(watch.tally.done))
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


def test_a_damaged_file_is_found_by_its_sum_before_anybody_allocates(session, tmp_path, monkeypatch):
    listing = write_cache(tmp_path, {"a.bin": {"a": np.zeros(4)}, "b.bin": {"b": np.zeros(4)}})
    (tmp_path / "b.bin").write_bytes(bytes(31) + b"1")
    s = session(2)
    allocated, new_array = [], parts.new_array
    monkeypatch.setattr(parts, "new_array", lambda *given: allocated.append(given) or new_array(*given))
    hashed = stored.StoredFile.hashed

    def late(file):
        if file.path.endswith("b.bin"):  # worker 0 has all the time that it needs
            until(lambda: s._launcher.positions()[0].state == "idle")
        return hashed(file)

    monkeypatch.setattr(stored.StoredFile, "hashed", late)
    with pytest.raises(WorkerError, match=r"check 2 files failed on worker 1\n.*b\.bin is damaged") as caught:
        s.load_tensor_cache(listing)
    assert registers(s) == []
    assert allocated == []
    assert s.load_tensor_cache(listing, check_md5=False)["b"].get(0)[-1] != 0
    assert len(allocated) == 4
    assert list(caught.value.failures) == [1]


def test_the_others_leave_out_what_is_still_to_come_when_one_fails(session, path, monkeypatch, stop_at, gate):
    read = []
    copy_to = stored.StoredTensor.copy_to

    def counted(tensor, *where):
        read.append(tensor.name)
        if tensor.name == "l.0.weight":
            raise DiscoError("no more")
        return copy_to(tensor, *where)

    monkeypatch.setattr(stored.StoredTensor, "copy_to", counted)
    s = session(1)
    with pytest.raises(WorkerError, match="no more"):
        s.load_safetensors(path)
    assert read == ["embed.weight", "l.0.weight"]
    assert registers(s) == []


@pytest.fixture
def under_way(monkeypatch, gate):
    """Does something in the waiting thread when all workers of a load have come to the gate."""

    def arrange(session, workers, act):
        session.sync_all()  # then the first wait is the load's
        take = dispatch.take

        def acting(*given):
            monkeypatch.setattr(dispatch, "take", take)
            gate.arrived(workers)
            act()
            return take(*given)

        monkeypatch.setattr(dispatch, "take", acting)

    return arrange


def test_a_load_that_takes_too_long_is_stopped_and_says_where_it_was(  # noqa: PLR0917 - fixtures
    session, path, monkeypatch, stop_at, gate, under_way
):
    s = session(2)
    stop_at()

    def late():
        raise Empty

    under_way(s, 2, late)
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
    under_way(s, 2, lambda: signal.raise_signal(signal.SIGINT))
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


def test_ctrl_c_while_headers_are_read_says_that_nothing_was_sent(session, path, monkeypatch):
    # The wait for workers explains itself; this part is the caller's own reading, and its error was empty.
    s = session(1)
    before = s.ledger.seq
    read = safetensors.open_safetensors

    def slow(*given):
        signal.raise_signal(signal.SIGINT)
        return read(*given)

    monkeypatch.setattr(safetensors, "open_safetensors", slow)
    with pytest.raises(
        KeyboardInterrupt, match=r"^load_safetensors was interrupted while it read which .* nothing was sent$"
    ):
        s.load_safetensors(path)
    assert s.ledger.seq == before
    monkeypatch.undo()
    check(s.load_safetensors(path), 1, lambda _: (0, 1))


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
    monkeypatch.setattr(dispatch, "take", lambda *_: Lost(1, 0, "it was unplugged"))
    with pytest.raises(WorkerLost, match="worker 1 is gone: it was unplugged"):
        s.load_safetensors(path)


@on_linux
def test_a_load_that_failed_leaves_no_file_open(session, path, monkeypatch):
    read, counted = reading._read, count()

    def late(*given):  # returns before it fails, so that the failure holds no frame of it
        if next(counted) == 3:
            os.utime(path)
        return read(*given)

    monkeypatch.setattr(reading, "_read", late)
    s = session(3)
    with pytest.raises(WorkerError, match="was changed") as caught:
        s.load_safetensors(path)
    s.sync_all()
    assert caught.value.__traceback__ is not None  # which holds the load
    assert descriptors(path) == 0


def test_stopped_parts_are_none_and_no_failure(session, path):
    tensor = open_safetensors(path).tensors["embed.weight"]
    tally = Tally(2)
    tally.stop()
    s = session(2)
    assert s.call_packed(LoadPart(tensor, None, True, tally)).get_all() == [None, None]
    assert s.call_packed(CheckFiles((tensor.file,) * 2, tally)).get_all() == [None, None]
    assert tally.done == 2 * tensor.file.nbytes  # a block each, and then they looked
