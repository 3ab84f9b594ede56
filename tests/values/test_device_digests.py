"""Digests of arrays on GPUs, made there by a kernel: equal for equal bits alone, whatever the layout."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from disco_magic.testing.gpu import SimulatedGpus
from disco_magic.values import digests
from disco_magic.values.device_digests import DeviceDigests
from tests.digests import expected
from tests.gpus import LAGS
from tests.sampled import in_turn

ml_dtypes = pytest.importorskip("ml_dtypes")

DTYPES = ["?", "i1", "u2", "f2", "f4", "i8", "c8", "c16", ml_dtypes.bfloat16]


def _shifted(xp, host):
    """The array one element behind the beginning of an allocation."""
    room = xp.zeros(host.size + 1, host.dtype)
    room[1:] = xp.asarray(host.reshape(-1))
    return room[1:].reshape(host.shape)


LAYOUTS = {
    "transposed": lambda xp, host: xp.asarray(np.ascontiguousarray(host.T)).T,
    "reversed": lambda xp, host: xp.asarray(np.ascontiguousarray(host[::-1, ::-1]))[::-1, ::-1],
    "a section": lambda xp, host: xp.asarray(np.pad(host, 3))[3:-3, 3:-3],
    "at an odd address": _shifted,
}


@pytest.fixture(params=LAGS.values(), ids=LAGS)
def gpus(request):
    with SimulatedGpus(count=2, memory_nbytes=1 << 25, lag=request.param) as made:
        yield made


@pytest.fixture
def xp(gpus):
    return gpus.cupy


@pytest.fixture
def digest(xp):
    return DeviceDigests(xp).digest_of


@pytest.mark.parametrize(
    ("case", "shape"), in_turn([*product(DTYPES, LAYOUTS)], [(7, 9), (64, 33), (33, 64)])
)
def test_a_digest_is_the_same_for_every_layout(xp, digest, case, shape):
    dtype, layout = case
    host = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    assert digest(LAYOUTS[layout](xp, host)) == digest(xp.asarray(host)) == expected(host)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 63, 255, 256 * 8, 256 * 8 * 8 + 3])
def test_every_byte_counts_and_where_it_is(xp, digest, size):
    host = np.random.default_rng(size).integers(0, 255, size).astype("u1")
    whole = digest(xp.asarray(host))
    assert whole == expected(host)
    for at in {0, size // 3, size // 2, size - 1}:
        other = host.copy()
        other[at] ^= 1 << at % 8
        assert digest(xp.asarray(other)) != whole
    if size > 1:
        assert digest(xp.asarray(np.roll(host, 1))) != whole
        assert digest(xp.asarray(host[:-1])) != whole
    assert digest(xp.asarray(np.append(host, np.uint8(0)))) != whole


def test_words_that_change_places_give_another_digest(xp, digest):
    host = np.arange(100, dtype="u8")
    first = {digest(xp.asarray(host))}
    for one, other in [(0, 1), (5, 90), (98, 99)]:
        swapped = host.copy()
        swapped[[one, other]] = swapped[[other, one]]
        first.add(digest(xp.asarray(swapped)))
    assert len(first) == 4


def test_no_two_of_many_arrays_have_one_digest(xp, digest):
    rng = np.random.default_rng(1)
    arrays = [rng.integers(0, 3, 16).astype("u1") for _ in range(300)]
    made = {digest(xp.asarray(each)): each.tobytes() for each in arrays}
    assert len(made) == len({each.tobytes() for each in arrays})


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2,) * 10])
def test_arrays_of_any_shape_have_one(xp, digest, shape):
    assert digest(xp.ones(shape)) == expected(np.ones(shape))


def test_zero_and_minus_zero_and_nans_differ_by_their_bits(xp, digest):
    other_nan = np.array([np.nan]).view("u8") ^ 1
    made = {digest(xp.asarray(np.array(each))) for each in ([0.0], [-0.0], [np.nan], other_nan.view("f8"))}
    assert len(made) == 4


def test_it_is_made_where_the_array_is_after_what_its_stream_does(gpus, xp, digest):
    with xp.cuda.Device(1):
        there = xp.arange(1000) * 2
        here = digest(there)
    assert digest(there) == here == digest(xp.arange(1000) * 2)


def test_few_bytes_come_to_the_host(xp, digest, monkeypatch):
    sizes = []
    get = xp.ndarray.get

    def counted(array, *args, **kwargs):
        sizes.append(array.nbytes)
        return get(array, *args, **kwargs)

    monkeypatch.setattr(xp.ndarray, "get", counted)
    digest(xp.zeros((1 << 20) + 1))
    digest(xp.zeros(3))
    assert sizes == [1 << 20, 4096]


def test_without_a_compiler_the_elements_come_to_the_host(xp, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("no NVRTC")

    array = xp.arange(1000)
    digests.use_gpus(able := DeviceDigests(xp))
    there = digests.digest_of(array)
    assert there == able.digest_of(array)
    monkeypatch.setattr(xp, "RawModule", refuse)
    digests.use_gpus(unable := DeviceDigests(xp))
    here = digests.digest_of(array)
    assert here == digests.digest_of(array) == digests.digest_of(np.arange(1000)) != there
    assert not unable.can_digest(array)


def test_what_is_of_another_session_s_cupy_or_comes_after_it_is_digested_on_the_host(xp):
    array = xp.arange(1000)
    with SimulatedGpus() as others:
        digests.use_gpus(theirs := DeviceDigests(others.cupy))
        assert digests.digest_of(array) == digests.digest_of(np.arange(1000))
        del theirs
    digests.use_gpus(DeviceDigests(xp))  # nobody keeps it
    assert digests.digest_of(array) == digests.digest_of(np.arange(1000))
