"""What a notebook shows of workers on GPUs, on simulated ones."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.core.stats import DeviceStats, SessionStats, WorkerStats
from disco_magic.devices import find
from disco_magic.errors import NoPicture
from disco_magic.notebook.inspector.acts import copied
from disco_magic.notebook.tables.reports import stats_html
from disco_magic.session.current import session
from disco_magic.testing.gpu import SimulatedGpus
from disco_magic.values import gathering


@pytest.fixture
def gpus(monkeypatch):
    monkeypatch.setattr(gathering, "PATIENCE_S", 60.0)
    with SimulatedGpus(count=2, lag=4) as made:
        monkeypatch.setattr(find, "load_cupy", lambda: made.cupy)
        monkeypatch.setattr(find, "count_gpus", lambda: 2)
        yield made


@pytest.fixture
def pair(gpus, shell):
    """A shell with a session of two workers on one GPU."""
    shell.run("%disco start --devices 0,0")
    return shell


# --- tables ----------------------------------------------------------------------------------------


def test_registers_on_a_gpu_are_shown_as_others_with_where_they_are(pair):
    pair.run("%%disco\nx = xp.arange(6.0)")
    pair.run("%disco registers --table")
    assert "  x  [0-1] float64 6 \u00b7 cuda:0 \u00b7 48 B \u00b7 min 0 mean 2.5 max 5" in pair.lines


def test_a_busy_worker_has_a_line_of_its_own_and_no_mark(pair, gpus):
    pair.run("%%disco\nx = xp.arange(6.0)")
    place = session()._launcher.places[1]
    with gpus.hold(place.stream):
        pair.run("%disco registers --table")
    assert "  x  [0] float64 6 \u00b7 cuda:0 \u00b7 48 B \u00b7 min 0 mean 2.5 max 5" in pair.lines
    assert "     [1] float64 6 \u00b7 cuda:0 \u00b7 48 B" in pair.lines


# --- memory ----------------------------------------------------------------------------------------


def test_status_has_a_line_per_gpu(pair, gpus):
    pair.run("%%disco\nx = xp.zeros(1 << 17)")
    pair.run("%disco status")
    (line,) = [line for line in pair.lines if line.startswith("cuda:0: ")]
    assert line.endswith(" of 256 MiB in use, 2 MiB in registers of [0-1]")


def test_status_of_a_gpu_that_is_lost_still_comes(pair, gpus):
    pair.run("%%disco\nx = xp.zeros(3)")
    gpus.fail(0, RuntimeError("on fire"))
    pair.run("%disco status")
    assert [line for line in pair.lines if "does not say how much of its memory is in use" in line]


def test_stats_have_a_line_per_gpu_under_the_table():
    worker = WorkerStats(0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0)
    devices = (DeviceStats("cuda:0", (0,), 2**20, 2**30, 5), DeviceStats("cuda:<1>", (1,), None, None, 0))
    html = stats_html(SessionStats(3, (worker, worker), devices))
    foot = html.partition("<tfoot>")[2].partition("</tfoot>")[0]
    assert foot.count("<tr>") == 2
    assert "cuda:0: 1 MiB of 1 GiB in use, 5 B in registers of [0]" in foot
    assert "cuda:&lt;1&gt;" in foot
    assert "<tfoot>" not in stats_html(SessionStats(3, (worker,)))


# --- copies ----------------------------------------------------------------------------------------


def test_the_inspector_copies_what_is_on_a_gpu_to_the_host(pair):
    pair.run("%%disco\nx = xp.arange(6).reshape(2, 3).T + worker_id\nn = 5\nl = [xp.ones(2)]")
    found = copied(session(), "x", 1)
    assert type(found) is np.ndarray
    assert found.tolist() == (np.arange(6).reshape(2, 3).T + 1).tolist()
    assert copied(session(), "n", 0) == 5
    assert copied(session(), "l", 0)[0].get().tolist() == [1.0, 1.0]


def test_the_inspector_copies_nothing_that_is_computed_still(pair, gpus):
    pair.run("%%disco\nx = xp.ones(3)\nl = [x]\nn = 5\nh = np.ones(3)")
    with gpus.hold(session()._launcher.places[0].stream):
        for name in ("x", "l"):
            with pytest.raises(NoPicture, match="still being computed on cuda:0"):
                copied(session(), name, 0)
        assert copied(session(), "n", 0) == 5
        assert copied(session(), "h", 0).tolist() == [1.0, 1.0, 1.0]
        assert copied(session(), "x", 1).tolist() == [1.0, 1.0, 1.0]


def test_status_of_workers_on_the_cpu_has_no_such_line(shell):
    shell.run("%disco start -n 2\n%disco status")
    assert not [line for line in shell.lines if line.startswith("cuda")]


def test_a_notebooks_array_on_a_gpu_is_scattered(pair, gpus):
    pair.ip.user_ns["x"] = gpus.cupy.arange(4)
    pair.run("%disco scatter x")
    assert [part.tolist() for part in session()["x"].get_all()] == [[0, 1], [2, 3]]
