"""The simulated GPU's devices, what is current in a thread, and what its module has and has not."""

from __future__ import annotations

import threading

import pytest

from disco_magic.testing.gpu import SimulatedGpus
from tests.conftest import DEADLINE_S

# --- current device and stream -----------------------------------------------------------------------------


def elsewhere(function):
    """What `function` gives in a thread of its own."""
    given = []
    thread = threading.Thread(target=lambda: given.append(function()))
    thread.start()
    thread.join(DEADLINE_S)
    return given[0]


def test_current_device_and_stream_are_each_threads_own(cupy):
    cupy.cuda.Device(1).use()
    stream = cupy.cuda.Stream().use()
    current = cupy.cuda.get_current_stream
    assert (cupy.cuda.Device().id, current()) == (1, stream)
    assert elsewhere(lambda: (cupy.cuda.Device().id, current())) == (0, cupy.cuda.Stream.null)


def test_one_stream_can_be_entered_by_two_threads_at_a_time(cupy):
    stream = cupy.cuda.Stream()
    inside, left = threading.Event(), threading.Event()

    def other():
        with stream:
            inside.set()
            left.wait(DEADLINE_S)
            return cupy.cuda.get_current_stream() == stream

    given = []
    thread = threading.Thread(target=lambda: given.append(other()))
    with stream:
        thread.start()
        assert inside.wait(DEADLINE_S)
    assert cupy.cuda.get_current_stream() == cupy.cuda.Stream.null
    left.set()
    thread.join(DEADLINE_S)
    assert given == [True]


def test_each_device_has_a_current_stream_of_its_own(cupy):
    stream = cupy.cuda.Stream()
    with stream:
        with cupy.cuda.Device(1):
            assert cupy.cuda.get_current_stream() == cupy.cuda.Stream.null
            assert cupy.cuda.get_current_stream(0) == stream
        assert cupy.cuda.get_current_stream() == stream


def test_a_stream_that_was_made_current_by_use_is_forgotten_by_a_with_block(cupy, two_streams):
    """As CuPy does, whose tests name it: what `use` sets is not on the stack that ``with`` goes back to."""
    a, b = two_streams
    a.use()
    with b:
        assert cupy.cuda.get_current_stream() == b
    assert cupy.cuda.get_current_stream() == cupy.cuda.Stream.null
    with a:
        b.use()
        with cupy.cuda.Stream():
            pass
        assert cupy.cuda.get_current_stream() == a


def test_a_stream_of_another_device_cannot_become_current(cupy):
    stream = cupy.cuda.Stream()
    with cupy.cuda.Device(1):
        with pytest.raises(RuntimeError, match=r"created on \(0\).*current device \(1\)"):
            stream.use()
        with pytest.raises(RuntimeError, match=r"created on \(0\).*current device \(1\)"):
            stream.__enter__()


def test_an_event_of_one_device_cannot_be_recorded_on_a_stream_of_another(cupy):
    event = cupy.cuda.Event()
    with cupy.cuda.Device(1), pytest.raises(RuntimeError, match="an event of device 0, a stream of device 1"):
        event.record()


def test_a_stream_can_be_taken_over_from_another_library(cupy):
    class Foreign:
        def __init__(self, ptr):
            self.ptr = ptr

        def __cuda_stream__(self):
            return 0, self.ptr

    stream = cupy.cuda.Stream()
    same = cupy.cuda.Stream.from_external(Foreign(stream.ptr))
    assert (same, same.device_id, hash(same)) == (stream, 0, hash(stream))
    assert same.__cuda_stream__() == (0, stream.ptr)
    assert cupy.cuda.Stream.from_external(Foreign(0)) == cupy.cuda.Stream.null
    with pytest.raises(RuntimeError, match="0x7 is no stream"):
        cupy.cuda.Stream.from_external(Foreign(7))


# --- devices -----------------------------------------------------------------------------------------------


def test_devices_are_named_numbered_and_comparable(cupy):
    device = cupy.cuda.Device(1)
    assert (int(device), repr(device), device.pci_bus_id) == (1, "<CUDA Device 1>", "0000:02:00.0")
    assert device == cupy.cuda.Device(device)
    assert len({device, cupy.cuda.Device(0), cupy.cuda.Device(1)}) == 2
    assert (device.compute_capability, device.attributes["MultiProcessorCount"]) == ("90", 4)
    device.synchronize()


def test_a_device_that_is_not_there_is_an_error(cupy):
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidDevice") as caught:
        cupy.cuda.Device(2).use()
    assert caught.value.status == 101


def test_without_a_device_there_is_nothing():
    with SimulatedGpus(count=0) as gpus:
        runtime = gpus.cupy.cuda.runtime
        assert not gpus.cupy.is_available()
        with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorNoDevice"):
            runtime.getDeviceCount()
        with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorNoDevice"):
            gpus.cupy.zeros(3)


def test_the_runtime_tells_what_the_devices_are(cupy):
    runtime = cupy.cuda.runtime
    assert (runtime.getDeviceCount(), runtime.getDevice(), runtime.is_hip) == (2, 0, False)
    runtime.setDevice(1)
    properties = runtime.getDeviceProperties(1)
    assert (properties["name"], properties["totalGlobalMem"]) == (b"Simulated GPU", 1 << 24)
    assert runtime.deviceGetPCIBusId(runtime.getDevice()) == "0000:02:00.0"
    assert runtime.driverGetVersion() >= runtime.runtimeGetVersion() >= 12000
    assert runtime.deviceCanAccessPeer(0, 1) == 0
    assert cupy.__version__.split(".")[0] == "14"
    assert cupy.is_available()
    assert cupy.cuda.is_available()


# --- the module --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("", "fft"),
        ("cuda", "nccl"),
        ("cuda.runtime", "graphLaunch"),
        ("random", "rand"),
        ("cuda.memory", "x"),
    ],
)
def test_what_is_not_simulated_says_so_by_name(cupy, path, name):
    module = cupy
    for part in filter(None, path.split(".")):
        module = getattr(module, part)
    with pytest.raises(NotImplementedError, match=rf"cupy.*\b{name}\b"):
        getattr(module, name)
    assert not hasattr(module, name)


def test_a_test_can_bring_its_own_nccl(cupy):
    cupy.cuda.nccl = object()
    assert hasattr(cupy.cuda, "nccl")


def test_streams_per_thread_are_refused(cupy):
    with pytest.raises(NotImplementedError, match="per-thread"):
        cupy.cuda.Stream(ptds=True)


def test_an_event_for_other_processes_keeps_no_time(cupy):
    with pytest.raises(ValueError, match="Timing must be disabled"):
        cupy.cuda.Event(interprocess=True)
