"""Memory of the simulated GPU: pools that hand out what is still in use, copies that read late."""

from __future__ import annotations

import gc
import threading

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


# --- copies by address -------------------------------------------------------------------------------------


def test_pinned_memory_is_a_buffer(cupy):
    pinned = cupy.cuda.alloc_pinned_memory(80)
    host = np.frombuffer(pinned, np.float64, 10)
    host[:] = 3
    assert (pinned.ptr, pinned.size(), pinned.mem.ptr) == (host.ctypes.data, 80, pinned.ptr)
    assert bytes(pinned) == host.tobytes()


def test_pinned_memory_that_was_freed_is_somebody_elses_at_once(cupy):
    pinned = cupy.cuda.alloc_pinned_memory(100)
    np.frombuffer(pinned, np.uint8)[:] = 7
    ptr = pinned.ptr
    view = np.frombuffer(pinned, np.uint8)
    del pinned
    assert cupy.cuda.alloc_pinned_memory(100).ptr != ptr
    del view
    gc.collect()
    again = cupy.cuda.alloc_pinned_memory(200)
    assert (again.ptr, bytes(again)[0]) == (ptr, 7)


def test_the_pool_of_pinned_memory_can_be_emptied(cupy):
    pool = cupy.get_default_pinned_memory_pool()
    ptr = cupy.cuda.alloc_pinned_memory(100).ptr
    gc.collect()
    assert pool.n_free_blocks() == 1
    pool.free_all_blocks()
    assert pool.n_free_blocks() == 0
    assert cupy.cuda.alloc_pinned_memory(100).ptr != ptr


@pytest.fixture
def pinned(cupy):
    """Pinned memory and an array over it."""
    memory = cupy.cuda.alloc_pinned_memory(32)
    return memory, np.frombuffer(memory, np.float64)


def test_a_copy_from_pinned_memory_reads_when_it_is_made(gpus, cupy, two_streams, pinned):
    (stream, _), (memory, host), runtime = two_streams, pinned, cupy.cuda.runtime
    x = cupy.zeros(4)
    host[:] = 1
    with gpus.hold(stream):
        runtime.memcpyAsync(x.data.ptr, memory.ptr, 32, runtime.memcpyHostToDevice, stream.ptr)
        host[:] = 2
    assert x.get(stream=stream).tolist() == [2, 2, 2, 2]


def test_a_copy_does_not_keep_pinned_memory(gpus, cupy, two_streams):
    (stream, _), host = two_streams, np.frombuffer(cupy.cuda.alloc_pinned_memory(32), np.float64)
    x = cupy.zeros(4)
    host[:] = 1
    with gpus.hold(stream):
        x.set(host, stream=stream)
        del host
        gc.collect()
        np.frombuffer(cupy.cuda.alloc_pinned_memory(32), np.float64)[:] = 2
    assert x.get(stream=stream).tolist() == [2, 2, 2, 2]


def test_a_copy_from_pageable_memory_takes_what_is_there_at_the_call(gpus, cupy, two_streams):
    (stream, _), runtime = two_streams, cupy.cuda.runtime
    x, host = cupy.zeros(4), np.ones(4)
    with gpus.hold(stream):
        runtime.memcpyAsync(x.data.ptr, host.ctypes.data, 32, runtime.memcpyHostToDevice, stream.ptr)
        host[:] = 2
    assert x.get(stream=stream).tolist() == [1, 1, 1, 1]


def test_a_copy_into_pinned_memory_does_not_wait(gpus, cupy, two_streams, pinned):
    (stream, _), (memory, host), runtime = two_streams, pinned, cupy.cuda.runtime
    x = cupy.ones(4)
    cupy.cuda.runtime.deviceSynchronize()
    host[:] = 5
    with gpus.hold(stream):
        runtime.memcpyAsync(memory.ptr, x.data.ptr, 32, runtime.memcpyDeviceToHost, stream.ptr)
        assert x.get(stream=stream, out=host, blocking=False) is host
        assert host.tolist() == [5, 5, 5, 5]
    stream.synchronize()
    assert host.tolist() == [1, 1, 1, 1]


def test_a_copy_into_pinned_memory_that_is_to_block_does(gpus, cupy, pinned):
    stream, (_, host), given = cupy.cuda.Stream(non_blocking=True), pinned, []
    with stream:
        x = cupy.ones(4)
    thread = threading.Thread(target=lambda: given.append(x.get(stream=stream, out=host).tolist()))
    with gpus.hold(stream):
        thread.start()
        while gpus.queues(0)[1].pending < 3 and thread.is_alive():
            pass  # the hold, the copy, and the point that is waited for
    thread.join()
    assert given == [[1, 1, 1, 1]]


def test_a_copy_into_pageable_memory_waits_whatever_was_asked_for(gpus, cupy, two_streams, background):
    stream, _ = two_streams
    with stream:
        x = cupy.ones(4)
    with gpus.hold(stream) as hold:
        copy = background(lambda: x.get(stream=stream, blocking=False))
        hold.arrived()
        hold.release()
        assert copy().tolist() == [1, 1, 1, 1]


def test_copies_on_the_null_stream_wait_for_the_host_and_for_blocking_streams(gpus, cupy):
    stream, runtime = cupy.cuda.Stream(), cupy.cuda.runtime
    x, y, host = cupy.zeros(4), cupy.zeros(4), np.zeros(4)
    with stream:
        x.fill(3)
    runtime.memcpy(y.data.ptr, x.data.ptr, 32, runtime.memcpyDeviceToDevice)
    runtime.memcpy(host.ctypes.data, y.data.ptr, 32, runtime.memcpyDeviceToHost)
    assert host.tolist() == [3, 3, 3, 3]
    runtime.memcpy(x.data.ptr, (host * 2).ctypes.data, 32, runtime.memcpyHostToDevice)
    assert x.get().tolist() == [6, 6, 6, 6]


@pytest.mark.parametrize(("target", "source"), [("x", "y"), ("x", "host"), ("host", "x"), ("host", "other")])
def test_the_kind_of_a_copy_can_be_left_to_the_addresses(cupy, target, source):
    arrays = {"x": cupy.ones(4), "y": cupy.full(4, 2.0), "host": np.full(4, 3.0), "other": np.full(4, 4.0)}
    to, of = arrays[target], arrays[source]
    before = of if source in ("host", "other") else of.get()
    pointers = [each.ctypes.data if isinstance(each, np.ndarray) else each.data.ptr for each in (to, of)]
    stream, runtime = cupy.cuda.Stream(), cupy.cuda.runtime
    runtime.memcpyAsync(*pointers, 32, runtime.memcpyDefault, stream.ptr)
    stream.synchronize()
    after = to if target == "host" else to.get()
    assert after.tolist() == before.tolist()


def test_bytes_can_be_set(cupy):
    x, stream, runtime = cupy.empty(8, np.uint8), cupy.cuda.Stream(), cupy.cuda.runtime
    runtime.memset(x.data.ptr, 1, 8)
    runtime.memsetAsync(x.data.ptr + 2, 0x1FF, 2, stream.ptr)
    assert x.get(stream=stream).tolist() == [1, 1, 255, 255, 1, 1, 1, 1]


@pytest.mark.parametrize("call", ["memset", "target", "source"])
def test_an_address_that_is_not_the_devices_breaks_it_when_the_stream_gets_there(gpus, cupy, call):
    x, host, runtime = cupy.zeros(4), np.zeros(4), cupy.cuda.runtime
    stream = cupy.cuda.Stream()
    runtime.deviceSynchronize()
    with gpus.hold(stream):
        if call == "memset":
            runtime.memsetAsync(host.ctypes.data, 0, 8, stream.ptr)
        elif call == "target":
            runtime.memcpyAsync(host.ctypes.data, x.data.ptr, 8, runtime.memcpyDeviceToDevice, stream.ptr)
        else:
            beyond = x.data.ptr + UNIT - 8
            runtime.memcpyAsync(x.data.ptr, beyond, 16, runtime.memcpyDeviceToDevice, stream.ptr)
    with pytest.raises(runtime.CUDARuntimeError, match=r"cudaErrorIllegalAddress.*bytes at 0x") as caught:
        stream.synchronize()
    assert caught.value.status == 700


def test_the_runtime_knows_what_memory_an_address_is_of(cupy, pinned):
    runtime, (memory, _), host = cupy.cuda.runtime, pinned, np.zeros(1)
    with cupy.cuda.Device(1):
        x = cupy.zeros(4)
    on_device = runtime.pointerGetAttributes(x.data.ptr)
    assert (on_device.type, on_device.device) == (runtime.memoryTypeDevice, 1)
    assert runtime.pointerGetAttributes(memory.ptr).type == runtime.memoryTypeHost == 1
    assert runtime.pointerGetAttributes(host.ctypes.data).type == runtime.memoryTypeUnregistered


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
