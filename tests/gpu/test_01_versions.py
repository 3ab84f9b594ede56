"""What there is: versions, and whether the rest can work at all."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from disco_magic.devices import find
from disco_magic.functions.installed import visible_gpus
from tests.gpu.machine import SIMULATED
from tests.gpu.nccl import needs_nccl


def test_we_count_the_gpus_that_cupy_counts(cupy, record_property):
    runtime = cupy.cuda.runtime
    record_property("numpy", np.__version__)
    record_property("cupy", cupy.__version__)
    record_property("driver", runtime.driverGetVersion())
    record_property("runtime", runtime.runtimeGetVersion())
    record_property("device", runtime.getDeviceProperties(0)["name"].decode())
    record_property("compute capability", cupy.cuda.Device(0).compute_capability)
    assert find.count_gpus() == runtime.getDeviceCount()


def may_be_used(file):
    """Whether a GPU's device file can be opened: a container's rules for devices are not seen in its mode."""
    try:
        os.close(os.open(file, os.O_RDWR))
    except OSError:
        return False
    return True


@pytest.mark.skipif(SIMULATED, reason="a simulated GPU has no device file")
@pytest.mark.skipif(find.has_other_driver(), reason="GPUs without device files of their own")
def test_we_find_them_without_asking_cuda(cupy):
    if b"MIG" in cupy.cuda.runtime.getDeviceProperties(0)["name"]:
        pytest.skip("a part of a GPU, which has no device file of its own")
    if not all(map(may_be_used, Path("/dev").glob("nvidia[0-9]*"))):
        pytest.skip(
            "GPUs of the machine that this process may not use: their device files are there all the same"
        )
    assert visible_gpus() == cupy.cuda.runtime.getDeviceCount()


def test_the_device_says_how_much_memory_it_has(cupy):
    free, total = cupy.cuda.Device(0).mem_info
    assert 0 < free <= total


@needs_nccl
def test_nccl_is_new_enough(cupy, record_property):
    record_property("nccl", cupy.cuda.nccl.get_version())
    assert cupy.cuda.nccl.get_version() >= 21800  # communicators can be split


def test_kernels_are_compiled_and_run(cupy, spin):
    event = cupy.cuda.Event()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        spin(0.2)
        event.record(stream)
        assert not event.done
        event.synchronize()
        assert event.done


@pytest.mark.skipif(SIMULATED, reason="the simulated runtime has no number for it")
def test_an_event_is_asked_as_we_ask_it(cupy, spin):
    event = cupy.cuda.Event(disable_timing=True)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        spin(0.2)
        event.record(stream)
        assert cupy.cuda.runtime.eventQuery(event.ptr) == 600
        event.synchronize()
        assert cupy.cuda.runtime.eventQuery(event.ptr) == 0


@pytest.mark.parametrize("dtype", ["bool", "float16", "float64", "complex64", "uint8"])
def test_arrays_come_back_as_they_went(cupy, dtype):
    array = np.arange(100).astype(dtype)
    assert cupy.asarray(array).get().tolist() == array.tolist()
