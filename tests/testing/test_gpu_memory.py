"""Memory of the simulated GPU: pools that hand out what is still in use, copies that read late."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from disco_magic.testing.gpu import SimulatedGpus

UNIT = 512


# --- the pool ----------------------------------------------------------------------------------------------


def test_memory_that_nobody_wrote_holds_a_pattern(cupy):
    assert set(cupy.empty(100, np.uint8).get().tolist()) == {0xA5}


def test_a_freed_block_is_the_next_one_of_its_size_on_that_stream_with_its_old_content(cupy):
    x, y = cupy.full(10, 1.0), cupy.full(10, 2.0)
    first, second = x.data.ptr, y.data.ptr
    del x, y
    larger = cupy.empty(UNIT // 8 + 1)
    again, then = cupy.empty(64), cupy.empty(10)
    assert (again.data.ptr, then.data.ptr) == (second, first)
    assert larger.data.ptr not in (first, second)
    assert then[0].item() == 1.0


def test_a_freed_block_is_the_next_one_for_less_too_if_no_smaller_one_fits(cupy):
    """Memory of one shape is overwritten by arrays of another: not only the next of its size comes there."""
    pool = cupy.get_default_memory_pool()
    large, small = cupy.full(UNIT, 1.0), cupy.full(UNIT // 4, 2.0)
    there = large.data.ptr, small.data.ptr
    del large, small
    first, second = cupy.empty(10), cupy.empty(10)
    assert (second.data.ptr, first.data.ptr) == there
    assert (first.data.mem.size, pool.used_bytes(), pool.free_bytes()) == (UNIT, 2 * UNIT, 8 * UNIT)


def test_a_view_keeps_the_block(cupy):
    x = cupy.arange(10)
    ptr, last = x.data.ptr, x[9:]
    del x
    assert cupy.empty(10).data.ptr != ptr
    assert (last.item(), last.data.ptr) == (9, ptr + 72)


def test_each_stream_of_each_device_has_memory_of_its_own(cupy, two_streams):
    a, b = two_streams
    with a:
        ptr = cupy.empty(10).data.ptr
    with b:
        assert cupy.empty(10).data.ptr != ptr
    with cupy.cuda.Device(1):
        assert cupy.empty(10).data.ptr != ptr
    assert cupy.empty(10).data.ptr != ptr
    with a:
        assert cupy.empty(10).data.ptr == ptr


def test_memory_freed_while_another_stream_reads_it_shows_its_next_content(gpus, cupy, two_streams):
    """The bug of every plane: the owner's stream knows nothing of what is queued elsewhere."""
    a, b = two_streams
    with a:
        x = cupy.full(4, 1.0)
        a.synchronize()
    with b, gpus.hold(b):
        y = x + 0
        del x
        with a:
            z = cupy.full(4, 9.0)
            a.synchronize()
    assert y.get(stream=b).tolist() == [9, 9, 9, 9]
    assert z.shape == (4,)


def test_memory_freed_on_its_own_stream_is_overwritten_after_it_was_read(gpus, cupy, two_streams):
    stream, _ = two_streams
    with stream, gpus.hold(stream):
        x = cupy.full(4, 1.0)
        y = x + 0
        ptr = x.data.ptr
        del x
        z = cupy.full(4, 9.0)
        assert z.data.ptr == ptr
    assert y.get(stream=stream).tolist() == [1, 1, 1, 1]


def test_the_pool_counts_what_it_has(cupy):
    pool, device = cupy.get_default_memory_pool(), cupy.cuda.Device()
    x = cupy.zeros(1)
    y = cupy.zeros(UNIT + 1, np.uint8)
    assert (pool.used_bytes(), pool.free_bytes(), pool.total_bytes()) == (3 * UNIT, 0, 3 * UNIT)
    del x
    assert (pool.used_bytes(), pool.free_bytes(), pool.n_free_blocks()) == (2 * UNIT, UNIT, 1)
    assert device.mem_info == cupy.cuda.runtime.memGetInfo() == ((1 << 24) - 3 * UNIT, 1 << 24)
    with cupy.cuda.Device(1):
        assert pool.total_bytes() == 0
    pool.free_all_blocks()
    assert (pool.total_bytes(), pool.n_free_blocks()) == (2 * UNIT, 0)
    assert y.sum().item() == 0


def test_blocks_of_one_stream_can_be_given_back_alone(cupy, two_streams):
    pool = cupy.get_default_memory_pool()
    for stream in two_streams:
        with stream:
            cupy.empty(1)
    pool.free_all_blocks(two_streams[0])
    assert pool.total_bytes() == UNIT


def test_giving_blocks_back_waits_for_the_device(gpus, cupy, two_streams, background):
    a, b = two_streams
    with a:
        cupy.empty(1)
    with gpus.hold(b) as hold:
        done = []
        b.launch_host_func(done.append, 1)
        free = background(cupy.get_default_memory_pool().free_all_blocks)
        hold.release()
        free()
        assert done == [1]


def test_what_was_given_back_is_handed_out_as_new(cupy):
    cupy.zeros(1)
    cupy.get_default_memory_pool().free_all_blocks()
    assert set(cupy.empty(8, np.uint8).get().tolist()) == {0xA5}


def test_memory_runs_out_after_free_blocks_were_given_back(cupy):
    x = cupy.empty(1 << 23, np.uint8)
    cupy.empty(1 << 22, np.uint8)  # free at once, and of a size that does not fit again
    y = cupy.empty((1 << 23) - UNIT, np.uint8)
    with pytest.raises(
        cupy.cuda.memory.OutOfMemoryError, match="Out of memory allocating 1,024 bytes"
    ) as caught:
        cupy.empty(UNIT + 1, np.uint8)
    assert isinstance(caught.value, MemoryError)
    assert cupy.empty(UNIT, np.uint8).size == UNIT
    assert x.size + y.size == (1 << 24) - UNIT
    with cupy.cuda.Device(1):
        assert cupy.empty(1 << 23, np.uint8).size == 1 << 23


def test_an_array_without_elements_takes_no_memory(cupy):
    x = cupy.empty((0, 3))
    assert (x.data.ptr, x.nbytes, cupy.get_default_memory_pool().total_bytes()) == (0, 0, 0)
    assert (x + 1).get().shape == (0, 3)
    assert x.device.id == 0


def test_memory_can_be_had_without_an_array_and_wrapped_in_one(cupy):
    pointer = cupy.get_default_memory_pool().malloc(64)
    x = cupy.ndarray((4,), np.int32, pointer + 16)
    x.fill(3)
    assert (x.data.ptr, int(x.data), x.data.mem.size) == (pointer.ptr + 16, x.data.ptr, UNIT)
    assert cupy.ndarray(16, np.int32, pointer)[4:8].get().tolist() == [3] * 4
    ptr = pointer.ptr
    del pointer, x
    assert cupy.cuda.alloc(64).ptr == ptr


# --- several devices ---------------------------------------------------------------------------------------


def test_an_array_of_another_device_is_refused(cupy):
    with cupy.cuda.Device(1):
        x = cupy.ones(3)
    with pytest.raises(ValueError, match=r"resides \(1\).*current device \(0\).*Peer access is unavailable"):
        x + 1
    with pytest.raises(ValueError, match=r"resides \(1\).*current device \(0\)"):
        cupy.ones(3)[:] = x
    assert x.get().tolist() == [1, 1, 1]
    assert x.device.id == 1


def test_with_peer_access_it_is_taken(gpus, cupy):
    gpus.allow_peer_access()
    with cupy.cuda.Device(1):
        x = cupy.ones(3)
        cupy.cuda.Device().synchronize()
    assert (x + 1).get().tolist() == [2, 2, 2]
    assert cupy.cuda.runtime.deviceCanAccessPeer(0, 1) == 1


def test_copies_between_devices_need_no_peer_access(cupy):
    with cupy.cuda.Device(1):
        x = cupy.arange(6.0).reshape(2, 3)
        cupy.cuda.Device().synchronize()
    copies = [x.copy(), cupy.asarray(x), cupy.array(x, np.float32), cupy.empty((2, 3)), cupy.empty((3, 2)).T]
    for target in copies[3:]:
        cupy.copyto(target, x)
        cupy.cuda.runtime.deviceSynchronize()
    assert [each.device.id for each in copies] == [0] * 5
    for each in copies:
        assert each.get().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_copy_that_is_no_plain_one_is_made_on_the_device_it_goes_to(gpus, cupy):
    x = cupy.ones(3, np.float32)
    cupy.cuda.Device(0).synchronize()
    with cupy.cuda.Device(1):
        y = cupy.zeros(3)
        cupy.cuda.Device().synchronize()
        stream = cupy.cuda.Stream(non_blocking=True).use()
    with gpus.hold(stream):
        cupy.copyto(y, x)
        cupy.cuda.Device(0).synchronize()
        assert y.get(stream=cupy.cuda.Stream.null).tolist() == [0, 0, 0]
    assert y.get().tolist() == [1, 1, 1]


def test_many_threads_use_the_pool_at_a_time(background):
    with SimulatedGpus(count=1, memory_nbytes=1 << 20) as gpus:
        cupy = gpus.cupy

        def work():
            with cupy.cuda.Stream(non_blocking=True):
                for number in range(200):
                    assert cupy.full(number + 1, number).sum().item() == number * (number + 1)

        for result in [background(work) for _ in range(4)]:
            result()
        gc.collect()
        assert cupy.get_default_memory_pool().used_bytes() == 0
