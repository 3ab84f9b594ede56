"""What is seen of arrays on GPUs from outside of their workers: right, at once, or not at all."""

from __future__ import annotations

import pytest

import disco_magic as disco
from disco_magic.core.snapshot import RegisterInfo, merge
from disco_magic.core.stats import device_stats
from disco_magic.core.topology import Topology
from disco_magic.devices.gpu import GpuPlace
from disco_magic.errors import NoPicture
from disco_magic.launchers.threads import ThreadLauncher
from disco_magic.planes.threads import ThreadPlane
from disco_magic.testing.gpu import SimulatedGpus
from disco_magic.testing.launcher import Crew
from disco_magic.values import gathering
from disco_magic.values.describe import describe
from disco_magic.values.peek import (
    Window,
    block_of,
    difference_of,
    histogram_of,
    picture_of,
    statistics_of,
)
from tests.gpus import LAGS, found, streams

ALL = Window()
STATISTICS = ("minimum", "mean", "maximum", "nans", "infs", "histogram", "sampled", "text", "fingerprint")
# The same arrays on the GPU and on the host.
BOTH = """
n = np.arange(300_000, dtype="float32").reshape(500, 600) % 97
n[3, 5], n[4, 6] = np.nan, -np.inf
g = xp.asarray(n)
nt, gt = n.T, g.T
ns, gs = n[:2, :2] * 1, xp.asarray(n[:2, :2])
nc, gc = np.array([3 + 4j, 1]), xp.asarray(np.array([3 + 4j, 1]))
n0, g0 = np.array(2.5), xp.asarray(np.array(2.5))
ne, ge = np.zeros((3, 0), "i2"), xp.zeros((3, 0), "i2")
nb, gb = np.array([True, False]), xp.asarray(np.array([True, False]))
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(gathering, "PATIENCE_S", 60.0)


@pytest.fixture(params=LAGS.values(), ids=LAGS)
def gpus(request, monkeypatch):
    with SimulatedGpus(count=2, lag=request.param) as made:
        found(monkeypatch, made, 2)
        yield made


@pytest.fixture
def pair(gpus, session):
    """Two workers on one GPU."""
    return session(2, devices=[0, 0])


def seen(cell):
    return {name: getattr(cell, name) for name in STATISTICS}


UNSEEN = seen(RegisterInfo("ndarray"))


# --- tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", ["", "t", "s", "c", "0", "e", "b"])
@pytest.mark.parametrize("sample", [65_536, 1000, 3])
def test_an_array_on_a_gpu_is_told_as_one_on_the_host(pair, letter, sample):
    pair.run(BOTH)
    table = pair.registers(sample=sample)
    host, there = table.row(f"n{letter}").cells[0], table.row(f"g{letter}").cells[0]
    assert seen(there) == seen(host)
    assert (there.type, there.shape, there.dtype, there.nbytes) == (
        host.type,
        host.shape,
        host.dtype,
        host.nbytes,
    )
    assert (there.device, host.device) == ("cuda:0", "cpu")


def test_equal_arrays_are_equal_and_different_ones_are_marked(pair):
    pair.run("same = xp.arange(100_000)\nown = same * 1\nown[777] = worker_id\nhere = np.ones(3)")
    pair.run("here = xp.ones(3)", workers=[1])
    table = pair.registers(sample=200_000)
    rows = [table.row(name) for name in ("same", "own", "here")]
    assert [row.differs for row in rows] == [False, True, True]
    assert [row.compared for row in rows] == [True, True, True]
    assert table.row("here").odd() == (False, True)


def test_a_busy_worker_shows_types_and_shapes_only_and_nobody_waits(pair, gpus):
    pair.run("x = xp.arange(6, dtype='int16')\nn = np.ones(3)")
    with gpus.hold(streams(pair)[1]):
        table = pair.registers()
        x = table.row("x")
        assert seen(x.cells[1]) == UNSEEN
        assert (x.cells[1].shape, x.cells[1].dtype, x.cells[1].nbytes) == ((6,), "int16", 12)
        assert x.cells[0].text == "[0 1 2 3 4 5]"
        assert (x.differs, x.compared, x.alike, x.odd()) == (False, False, False, (False, False))
        assert table.row("n").compared


def test_what_is_computed_still_is_not_told_as_it_was(pair, gpus):
    pair.run("x = xp.zeros(3)")
    hold = gpus.hold(streams(pair)[0])
    with hold:
        pair.call_packed(lambda x: x.fill(7), pair["x"], workers=[0])
        pair.call_packed(int)
        hold.arrived()
        before = pair.registers().row("x").cells[0]
        assert before.text == ""
    pair.sync_all()
    assert pair.registers().row("x").cells[0].text == "[7. 7. 7.]"


def test_a_gpu_that_is_busy_with_others_is_waited_for_a_moment_only(pair, gpus, monkeypatch):
    pair.run("x = xp.ones(3)")
    assert pair.registers().row("x").cells[0].text == "[1. 1. 1.]"
    gatherer = pair._launcher._sights[0]._gatherers.on(0)
    monkeypatch.setattr(gathering, "PATIENCE_S", 0.01)
    with gpus.hold(gatherer._bench.stream):
        for _ in range(2):
            assert seen(pair.registers().row("x").cells[0]) == UNSEEN
            with pytest.raises(NoPicture, match="cuda:0 is busy and did not answer in time; refresh"):
                pair.examine("x", picture_of, ALL)
    gatherer._bench.stream.synchronize()
    monkeypatch.setattr(gathering, "PATIENCE_S", 60.0)
    assert pair.registers().row("x").cells[0].text == "[1. 1. 1.]"


def test_a_look_does_not_raise_of_a_gpu_that_is_lost(pair, gpus):
    pair.run("x = xp.ones(3)\nn = np.ones(3)")
    gpus.fail(0, RuntimeError("on fire"))
    table = pair.registers()
    assert seen(table.row("x").cells[0]) == UNSEEN
    assert table.row("x").cells[0].device == "cuda:0"
    assert table.row("n").cells[0].text == "[1. 1. 1.]"
    (device,) = pair.stats().devices
    assert str(device) == (
        "cuda:0: 1 KiB in registers of [0-1]; it does not say how much of its memory is in use"
    )
    with pytest.raises(NoPicture):
        pair.examine("x", picture_of, ALL)


def test_a_look_does_not_raise_where_memory_is_out(gpus, session, monkeypatch):
    s = session(1, devices=[0])
    s.run("x = xp.ones(3)")
    refuse = gpus.cupy.cuda.memory.OutOfMemoryError(1, 2, 3)

    def alloc(size):
        raise refuse

    monkeypatch.setattr(gpus.cupy.cuda, "alloc_pinned_memory", alloc)
    assert seen(s.registers().row("x").cells[0]) == UNSEEN
    with pytest.raises(NoPicture, match="its elements cannot be read"):
        s.examine("x", picture_of, ALL)
    monkeypatch.undo()
    assert s.registers().row("x").cells[0].text == "[1. 1. 1.]"


def test_a_reference_tells_of_its_value(pair, gpus):
    ref = pair.call_packed(lambda: disco.worker().xp.arange(4) + disco.worker().id)
    pair.sync_all()
    assert [cell.text for cell in ref.info().cells] == ["[0 1 2 3]", "[1 2 3 4]"]
    only = pair.call_packed(lambda: disco.worker().xp.arange(2), workers=[1])
    pair.sync_all()
    assert only.info().cells[0] is None
    assert only.info().cells[1].text == "[0 1]"


def test_looking_in_headers_only_asks_the_gpu_for_nothing(pair, gpus):
    pair.run("x = xp.ones(3)")
    assert seen(pair.registers(sample=0).row("x").cells[0]) == UNSEEN
    assert pair._launcher._sights[0]._gatherers._made == {}


def test_the_looking_thread_keeps_its_stream(pair, gpus):
    pair.run("x = xp.ones(3)")
    cupy = gpus.cupy
    with cupy.cuda.Device(1):
        mine = cupy.cuda.Stream(non_blocking=True)
        mine.use()
        pair.registers()
        pair.examine("x", picture_of, ALL)
        assert (cupy.cuda.Device().id, cupy.cuda.get_current_stream()) == (1, mine)
        cupy.cuda.Stream.null.use()


def test_workers_with_a_gpu_each_are_looked_at_on_their_own(gpus):
    launcher = ThreadLauncher(Topology(2), ThreadPlane(2), places=[GpuPlace(gpus.cupy, n) for n in range(2)])
    crew = Crew(launcher, 2)
    try:
        crew.run("x = xp.arange(3)\ny = x + worker_id")
        rows = {row.name: row for row in merge(1, launcher.look(numbered=False, sample=10)).rows}
        assert [cell.text for cell in rows["y"].cells] == ["[0 1 2]", "[1 2 3]"]
        assert [cell.device for cell in rows["y"].cells] == ["cuda:0", "cuda:1"]
        assert (rows["x"].differs, rows["x"].alike, rows["y"].differs) == (False, True, True)
        with gpus.hold(launcher.places[0].stream):
            rows = {row.name: row for row in merge(1, launcher.look(numbered=False, sample=10)).rows}
            assert [cell.text for cell in rows["y"].cells] == ["", "[1 2 3]"]
        launcher.places[0].stream.synchronize()
        found = launcher.examine("y", difference_of, (ALL,), [(0, 1)])
        assert [(each.differing, each.max_abs) for each in found] == [(3, 1.0)]
        told = device_stats(launcher.accounts())
        assert [(each.device, each.workers, each.nbytes) for each in told] == [
            ("cuda:0", (0,), 1024),
            ("cuda:1", (1,), 1024),
        ]
    finally:
        crew.stop()


# --- pictures and details --------------------------------------------------------------------------


LOOKS = {
    "picture": lambda value: picture_of(value, ALL, 7).values.tolist(),
    "block": lambda value: block_of(value, ALL).cells,
    "histogram": lambda value: histogram_of(value, sample=5000).counts,
    "statistics": lambda value: repr(statistics_of(value, chunk=10_000)),
    "description": lambda value: seen(describe(value)),
}


@pytest.mark.parametrize("letter", ["", "t", "s", "c", "b"])
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_picture_of_an_array_on_a_gpu_is_that_of_one_on_the_host(pair, look, letter):
    pair.run(BOTH)
    host, there = (pair.examine(f"{where}{letter}", look)[1] for where in "ng")
    assert repr(there) == repr(host)


def test_values_of_two_workers_are_compared(pair):
    pair.run("x = xp.arange(20_000.0).reshape(100, 200)\nx[70, 3] += worker_id")
    found = pair.examine_pair("x", difference_of, ALL, workers=(0, 1))
    assert (found.differing, found.where, found.max_abs) == (1, (70, 3), 1.0)


@pytest.mark.parametrize("look", [value for name, value in LOOKS.items() if name != "description"])
def test_what_is_computed_still_has_no_picture(pair, gpus, look):
    pair.run("x = xp.ones(3)")
    with gpus.hold(streams(pair)[1]):
        with pytest.raises(NoPicture, match=r"its elements are still being computed on cuda:0; refresh"):
            pair.examine("x", look)
        pair.examine("x", look, workers=[0])


def test_of_a_pair_both_workers_have_to_be_done(pair, gpus):
    pair.run("x = xp.ones(3)")
    for busy in streams(pair):
        with gpus.hold(busy), pytest.raises(NoPicture, match="still being computed"):
            pair.examine_pair("x", difference_of, ALL, workers=(0, 1))


def test_arrays_on_another_gpu_than_the_workers_own_are_seen_when_its_default_stream_is_done(pair, gpus):
    pair.run("with xp.cuda.Device(1):\n    x = xp.arange(3)\n    xp.cuda.Device(1).synchronize()")
    assert [cell.text for cell in pair.registers().row("x").cells] == ["[0 1 2]"] * 2
    assert pair.registers().row("x").cells[0].device == "cuda:1"
    with gpus.cupy.cuda.Device(1):
        hold = gpus.hold(gpus.cupy.cuda.Stream.null)
    with hold:
        assert seen(pair.registers().row("x").cells[0]) == UNSEEN


def test_whoever_is_the_worker_needs_no_sight(pair):
    pair.run("from disco_magic.values.peek import picture_of, Window")
    pair.run("x = xp.full((2, 2), 3.0); x += 1\np = picture_of(x, Window()).values.tolist()")
    assert pair["p"].get_all() == [[[4.0, 4.0], [4.0, 4.0]]] * 2


# --- results ---------------------------------------------------------------------------------------


def test_equal_results_are_one_group_and_different_ones_are_not(pair):
    grouped = {
        "xp.arange(5)": [(0, 1)],
        "xp.arange(100_000)": [(0, 1)],
        "x = xp.zeros(100_000); x[50_000] = worker_id; x": [(0,), (1,)],
        "[xp.ones(3), {'a': xp.full((300, 300), 2)}]": [(0, 1)],
        "[xp.ones(3), {'a': xp.full((300, 300), worker_id)}]": [(0,), (1,)],
        "xp.ones(3) if worker_id else np.ones(3)": [(0,), (1,)],
        "xp.ones(3, 'f4') if worker_id else xp.ones(3)": [(0,), (1,)],
        "xp.ones((4, 3)).T if worker_id else xp.ones((3, 4))": [(0, 1)],
        "xp.full((4, 0), 1) if worker_id else xp.full((0, 4), 1)": [(0,), (1,)],
    }
    for cell, groups in grouped.items():
        assert [workers for workers, _ in pair.run(cell).groups()] == groups, cell


# --- checks ----------------------------------------------------------------------------------------


def test_values_on_gpus_are_compared_bit_by_bit(pair):
    pair.run(
        "x = xp.arange(200_000)\ny = x.reshape(2, 100_000).T * 1.0\nz = y * 1\nz[99_999, 1] += worker_id"
    )
    report = pair.check("x", "y", "z", values=True)
    assert [(row.name, row.aspects, row.opaque) for row in report.rows] == [
        ("x", (), ""),
        ("y", (), ""),
        ("z", ("value",), ""),
    ]
    assert report.rows[0].lines() == [("equal", "[0-1]", "cupy.ndarray int64 (200000,) cuda")]


def test_how_far_arrays_on_gpus_are_apart_is_told_as_on_the_host(pair):
    pair.run("g = xp.arange(200_000.0).reshape(400, 500).T + 0.25 * worker_id\nn = g.get()")
    there, host = pair.check("g", "n", values=True).rows
    assert there.gap == "200,000 of 200,000 elements differ from the first worker's, by up to 0.25"
    assert there.gap == host.gap


def test_of_large_arrays_on_gpus_the_same_elements_are_compared_as_on_the_host(pair, monkeypatch):
    monkeypatch.setattr("disco_magic.values.distances.MOST_ELEMENTS", 65_536)
    pair.run("g = xp.arange(200_000.0).reshape(400, 500).T + 0.25 * worker_id\nn = g.get()")
    there, host = pair.check("g", "n", values=True).rows
    assert "sampled elements differ" in there.gap
    assert there.gap == host.gap


def test_a_short_array_is_shown_where_it_differs(pair):
    pair.run("x = xp.full(2, worker_id)")
    (row,) = pair.check("x", values=True).rows
    assert [text for _, groups in row.splits() for _, text in groups] == [
        "cupy.ndarray int64 (2,) cuda [0 0]",
        "cupy.ndarray int64 (2,) cuda [1 1]",
    ]
    assert row.gap == "2 of 2 elements differ from the first worker's, by up to 1"


def test_each_workers_own_gpu_is_no_difference_another_one_is(pair):
    pair.run("x = xp.ones(3)\nwith xp.cuda.Device(worker_id):\n    y = xp.ones(3)")
    report = pair.check("x", "y")
    assert [row.aspects for row in report.rows] == [(), ("device",)]
    assert [cell.device for cell in report.rows[1].cells.values()] == ["cuda", "cuda:1"]


# --- memory ----------------------------------------------------------------------------------------


def test_stats_tell_the_memory_of_each_gpu(pair, gpus):
    pair.run(
        "x = xp.zeros(1 << 17)\nn = np.zeros(1 << 20)\nwith xp.cuda.Device(1):\n    y = xp.zeros(1 << 17)"
    )
    stats = pair.stats()
    (device,) = stats.devices
    used = gpus.cupy.get_default_memory_pool().total_bytes()
    assert (device.device, device.workers, device.used, device.total) == ("cuda:0", (0, 1), used, 1 << 28)
    assert device.nbytes == 2 << 20
    assert [each.device_nbytes for each in stats] == [1 << 20] * 2
    assert [each.nbytes for each in stats] == [(2 << 20) + (8 << 20)] * 2
    assert repr(stats).splitlines()[-1].startswith("cuda:0: ")


def test_stats_count_arrays_in_containers_and_each_allocation_once(pair):
    pair.run(
        "x = xp.zeros(1 << 17)\ny, v, w = x, x[1:], x.reshape(512, 256)\n"
        "p = {'w': xp.ones(1 << 17), 'x': x, 'n': np.ones(9)}\nq = [xp.ones(1 << 17)], (xp.ones(1 << 17), 3)"
    )
    assert [each.device_nbytes for each in pair.stats()] == [4 << 20] * 2
    pair.run("r = (xp.ones(1 << 17), 3)\ns = [r[0]]")
    assert [each.device_nbytes for each in pair.stats()] == [5 << 20] * 2
    pair.run("del x, y, w, p, q, r, s")
    assert [each.device_nbytes for each in pair.stats()] == [1 << 20] * 2  # a view keeps all of it


def test_the_table_tells_the_device_of_a_container_of_arrays(pair):
    pair.run("p = {'w': xp.ones(2), 'step': 3}\nq = [np.ones(2)]\nr = 1, 2")
    table = pair.registers()
    assert [table.row(name).cells[0].device for name in "pqr"] == ["cuda:0", None, None]
    assert "cuda:0" in str(table)


def test_workers_on_the_cpu_have_no_gpu(session):
    stats = session(2).stats()
    assert stats.devices == ()
    assert [(each.device, each.device_nbytes) for each in stats] == [("cpu", 0)] * 2
