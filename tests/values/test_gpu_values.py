"""Arrays on a GPU as values: their copies, fingerprints and digests, where they are."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from disco_magic.core.device import Device
from disco_magic.errors import UsageMistake
from disco_magic.functions.copies import copy_of
from disco_magic.functions.places import HOST_PLACE
from disco_magic.testing.gpu import SimulatedGpus
from disco_magic.values import digests
from disco_magic.values.describe import describe, describe_all
from disco_magic.values.digests import digest_of
from disco_magic.values.divergence import look
from disco_magic.values.fingerprint import fingerprint
from disco_magic.values.sights import Gatherers, sights_of
from disco_magic.values.spans import device_of
from tests.doubles.arrays import cupy_array

LAYOUTS = [lambda a: a, lambda a: a.T, lambda a: a[::-1], lambda a: a[:, 1:7], lambda a: a[:0]]


@pytest.fixture
def gpus():
    with SimulatedGpus(count=2) as made:
        yield made


@pytest.fixture
def slow():
    """GPUs that have never done what they were just given."""
    with SimulatedGpus(count=2, lag=lambda: 0.003) as made:
        yield made


# --- copies ----------------------------------------------------------------------------------------


class Box:
    def __init__(self, content):
        self.content = content


WRAPS = {
    "array": (lambda array: array, lambda copied: copied),
    "list": (lambda array: [array], lambda copied: copied[0]),
    "deep": (lambda array: {"k": (1, [array])}, lambda copied: copied["k"][1][0]),
    "object": (Box, lambda copied: copied.content),
}


@pytest.mark.parametrize(("wrap", "unwrap"), WRAPS.values(), ids=WRAPS)
def test_a_copy_is_made_when_it_is_handed_over(slow, wrap, unwrap):
    cupy = slow.cupy
    original = cupy.arange(1000)
    copied = unwrap(copy_of(wrap(original)))
    assert slow.queues(0)[0].done
    assert copied is not original
    # On a stream that waits for nobody, while the original's memory is somebody else's.
    with cupy.cuda.Stream(non_blocking=True):
        assert copied.get().tolist() == list(range(1000))


def test_copies_on_every_gpu_and_on_the_threads_own_stream_are_made(slow):
    cupy = slow.cupy
    mine = cupy.cuda.Stream(non_blocking=True)
    with mine, cupy.cuda.Device(1):
        there = cupy.arange(5)
        with cupy.cuda.Device(0):
            copies = copy_of(
                [cupy.arange(3).reshape(3, 1), there, cupy.zeros((0, 2)), cupy.float32(2) * cupy.ones(())]
            )
    assert [queue.done for device in (0, 1) for queue in slow.queues(device)] == [True] * 3
    assert [each.device.id for each in copies] == [0, 1, 0, 0]
    assert [each.get().tolist() for each in copies] == [[[0], [1], [2]], [0, 1, 2, 3, 4], [], 2.0]


def test_what_cannot_be_copied_is_refused_as_ever(gpus):
    with pytest.raises(UsageMistake, match="cannot be copied"):
        copy_of([gpus.cupy.ones(2), threading.Lock()])


# --- fingerprints ----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["?", "i2", "f4", "c16"])
def test_a_digest_is_that_of_the_same_array_on_the_host(gpus, monkeypatch, layout, dtype):
    monkeypatch.setattr(digests, "_BLOCK", 64)
    host = np.arange(80).reshape(8, 10).astype(dtype)
    assert digest_of(layout(gpus.cupy.asarray(host))) == digest_of(layout(host))


def test_only_a_part_of_an_array_is_on_the_host_at_a_time(gpus, monkeypatch):
    monkeypatch.setattr(digests, "_BLOCK", 1000)
    sizes = []
    get = gpus.cupy.ndarray.get

    def counted(array, *args, **kwargs):
        sizes.append(array.nbytes)
        return get(array, *args, **kwargs)

    monkeypatch.setattr(gpus.cupy.ndarray, "get", counted)
    digest_of(gpus.cupy.zeros((30, 40)).T)
    assert max(sizes) <= 1000
    assert sum(sizes) == 9600


@pytest.mark.parametrize(
    "other",
    [
        lambda xp: xp.arange(100_000)[::-1],
        lambda xp: xp.arange(100_000).astype("f8"),
        lambda xp: xp.arange(100_000).reshape(10, -1),
        lambda xp: xp.arange(99_999),
        lambda _: np.arange(100_000),
    ],
)
def test_a_fingerprint_is_that_of_equal_arrays_alone(gpus, other):
    xp = gpus.cupy
    array = xp.arange(100_000)
    assert fingerprint(array) == fingerprint(array + 0)
    assert fingerprint([array]) == fingerprint([array * 1])
    assert fingerprint(array) != fingerprint(other(xp))


def test_zeros_of_another_sign_differ_and_nans_are_equal(gpus):
    xp = gpus.cupy
    assert fingerprint(xp.zeros(2)) != fingerprint(-xp.zeros(2))
    assert fingerprint(xp.full(2, np.nan)) == fingerprint(xp.full(2, np.nan))


# --- where they are --------------------------------------------------------------------------------


def test_a_device_is_told_as_everywhere_else(gpus):
    with gpus.cupy.cuda.Device(1):
        there = gpus.cupy.zeros((2, 3), "f4")
    info = describe(there)
    assert (info.device, info.dtype, info.shape, info.nbytes) == ("cuda:1", "float32", (2, 3), 24)
    assert look(there, values=False).kind == "cupy.ndarray float32 (2, 3) cuda:1"


def foreign(module, **attributes):
    return type("Array", (), {"__module__": module, **attributes})()


@pytest.mark.parametrize(
    ("value", "device"),
    [
        (foreign("jaxlib.xla_extension", __dlpack_device__=lambda _: (2, 3), device="cuda thing"), "cuda:3"),
        (foreign("jaxlib.xla_extension", __dlpack_device__=lambda _: (10, 0)), "rocm:0"),
        (foreign("jaxlib.xla_extension", __dlpack_device__=lambda _: 1 / 0, device="sharded"), "sharded"),
        (foreign("jax.core"), "cpu"),
        (foreign("torch", device="cuda:2", __dlpack_device__=lambda _: 1 / 0), "cuda:2"),
        (foreign("torch"), "cpu"),
        (cupy_array([1]), "<CUDA Device 0>"),
    ],
)
def test_other_libraries_say_where_by_dlpack_or_as_we_do(value, device):
    assert device_of(value) == device
    assert describe(value).device == device


def test_without_a_sight_nothing_is_read(gpus):
    info = describe(gpus.cupy.ones(3))
    assert (info.text, info.minimum, info.fingerprint) == ("", None, b"")


def test_workers_on_the_host_have_no_sight():
    assert sights_of([HOST_PLACE, HOST_PLACE]) == [None, None]


def test_a_gpu_has_one_gatherer_for_all(gpus):
    made = Gatherers(gpus.cupy)
    assert made.on(1) is made.on(1)
    assert made.on(1) is not made.on(0)


def test_values_with_and_without_a_sight_are_told_in_their_order(gpus):
    (sight,) = sights_of([_Idle(gpus.cupy)])
    values = [gpus.cupy.full(2, 1), 5, gpus.cupy.full(2, 2), np.full(2, 3), gpus.cupy.full(2, 4)]
    gpus.cupy.cuda.Device(0).synchronize()
    infos = describe_all(values, sights=[sight, sight, None, None, sight])
    assert [info.text for info in infos] == ["[1 1]", "5", "", "[3 3]", "[4 4]"]


class _Idle:
    """A place on GPU 0 that never computes."""

    def __init__(self, cupy):
        self.xp, self.device = cupy, Device("cuda")

    def is_idle(self):
        return True
