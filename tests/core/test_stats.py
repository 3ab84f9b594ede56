"""Numbers about a session as people read them."""

from __future__ import annotations

import pytest

from disco_magic.core.stats import Account, SessionStats, WorkerStats, device_stats
from disco_magic.core.words import aligned, coarse_seconds, human_bytes, human_seconds


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (24, "24 B"),
        (1536, "1.5 KiB"),
        (64 * 2**20, "64 MiB"),
        (1_024_000, "0.977 MiB"),
        (1000, "1000 B"),
        (1023, "1023 B"),
        (3 * 2**50, "3,072 TiB"),
    ],
)
def test_bytes_have_a_unit_that_keeps_them_short(count, text):
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 ms"),
        (0.0123, "12.3 ms"),
        (0.99996, "1.00 s"),
        (59.996, "1 min 00 s"),
        (4.561, "4.56 s"),
        (425.2, "7 min 05 s"),
        (10_921, "3 h 02 min"),
    ],
)
def test_seconds_have_a_unit_that_keeps_them_short(seconds, text):
    assert human_seconds(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "< 1 ms"), (9.9e-4, "< 1 ms"), (1e-3, "1.0 ms"), (2, "2.00 s")]
)
def test_coarse_seconds_do_not_tell_less_than_a_millisecond(seconds, text):
    assert coarse_seconds(seconds) == text


def test_the_cells_of_a_column_end_at_the_same_place():
    assert aligned([("a", "long"), ("100", "b")]) == ["  a  long", "100     b"]


def test_of_many_workers_those_alike_are_one_row_of_the_stats():
    def of(worker, done=40, running_s=1.0):
        return WorkerStats(worker, 40, done, 40 - done, 3, 2048, running_s, 0.25, 60.0 - running_s)

    workers = [of(worker, running_s=1.0 + worker / 100) for worker in range(64)]
    workers[7], workers[9] = of(7, running_s=30.0), of(9, done=39)
    _, _, *rows = repr(SessionStats(7, tuple(workers))).splitlines()
    assert [" ".join(row.split()) for row in rows] == [
        "[0-6,8,10-63] 40 40 0 3 2 KiB 1.00 - 1.63 s 250.0 ms 58.37 - 59.00 s",
        "[7] 40 40 0 3 2 KiB 30.00 s 250.0 ms 30.00 s",
        "[9] 40 39 1 3 2 KiB 1.00 s 250.0 ms 59.00 s",
    ]


def test_stats_show_themselves_as_a_table_with_a_row_per_worker():
    stats = SessionStats(7, (WorkerStats(0, 1200, 1190, 10, 3, 2048, 1.5, 0.25, 60.0),))
    title, header, row = repr(stats).splitlines()
    assert title == "Disco session 7"
    assert " ".join(header.split()) == "worker sent done outstanding registers bytes running waiting idle"
    assert " ".join(row.split()) == "0 1,200 1,190 10 3 2 KiB 1.50 s 250.0 ms 1 min 00 s"
    assert len(header) == len(row)


def test_stats_are_a_sequence_of_workers():
    workers = tuple(WorkerStats(number, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0) for number in range(3))
    stats = SessionStats(1, workers)
    assert (len(stats), stats[2], list(stats)) == (3, workers[2], list(workers))


# --- GPUs ------------------------------------------------------------------------------------------


def account(**changes):
    return Account(1, 100, 0.0, 0.0, 0.0, **changes)


def test_workers_on_one_gpu_share_a_line():
    accounts = [
        account(device="cuda:1", device_nbytes=10, memory=(2**30, 4 * 2**30)),
        account(),
        account(device="cuda:1", device_nbytes=14, memory=(2**30, 4 * 2**30)),
        account(device="cuda:0", device_nbytes=0),
    ]
    told = device_stats(accounts)
    assert list(map(str, told)) == [
        "cuda:1: 1 GiB of 4 GiB in use, 24 B in registers of [0,2]",
        "cuda:0: 0 B in registers of [3]; it does not say how much of its memory is in use",
    ]
    assert (told[0].used, told[0].total, told[0].workers) == (2**30, 4 * 2**30, (0, 2))
    stats = SessionStats(1, (WorkerStats(0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0),), told)
    assert repr(stats).splitlines()[-2:] == list(map(str, told))


def test_workers_on_the_cpu_have_no_line():
    assert device_stats([account(), account()]) == ()
