"""Simulated GPUs in the place of cupy's, and what tests ask of the sessions that use them."""

from __future__ import annotations

import pytest

import disco_magic as disco
from disco_magic.devices import find, pinned, staging
from tests.conftest import until
from tests.doubles import nccl as doubles
from tests.sampled import EVERY_CASE

# Streams that are late at random find what prompt ones do: some of their work is done at once, too.
LAGS = {"prompt": None, "lagging": 11} if EVERY_CASE else {"lagging": 11}


def found(monkeypatch, gpus, count, *, nccl=None):
    """Let sessions find `count` of these GPUs, and NCCL or none; None: as it is in their cupy."""
    monkeypatch.setattr(find, "load_cupy", lambda: gpus.cupy)
    monkeypatch.setattr(find, "count_gpus", lambda: count)
    if nccl is not None:
        monkeypatch.setattr(find, "has_nccl", lambda: nccl)


def with_nccl(gpus):
    """Give them the unmodified `cupy.cuda.nccl` over the double of NCCL, which is returned; or skip."""
    if (reason := doubles.available()) is not None:
        pytest.skip(reason)
    double = doubles.load()
    from cupy.cuda import nccl

    gpus.cupy.cuda.nccl = nccl
    double.set_gpus(gpus)
    return double


def host(value):
    """A register's value as lists, one per worker, through the session's own copies."""
    return [None if each is None else each.tolist() for each in value.get_all()]


def streams(session):
    """The stream of each worker."""
    return [place.stream for place in session._launcher.places]


def done_after_a_barrier(session, held, stream=lambda me: me.place.stream):
    """Whether each worker's `stream` is idle behind a barrier, while that of worker 1 alone is `held`."""
    done = {}

    def program(me):
        with stream(me) as mine:
            me.barrier()
            done[me.worker_id] = mine.done

    with held:
        session.call_packed(lambda: program(disco.worker()))
        until(lambda: len(done) == session.num_workers)
    session.sync_all()
    return done


def in_small_chunks(monkeypatch, nbytes, threads=3):
    """Let copies between host and GPU move so many bytes at a time at most, by so many threads."""
    for name, value in [
        ("CHUNK_NBYTES", nbytes),
        ("LEAST_NBYTES", nbytes // 2),
        ("ALONE_NBYTES", nbytes // 2),
    ]:
        monkeypatch.setattr(staging, name, value)
    monkeypatch.setattr(pinned, "THREADS", threads)
