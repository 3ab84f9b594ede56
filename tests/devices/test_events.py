"""What errors of CUDA's libraries mean for a GPU."""

from __future__ import annotations

import pytest

from disco_magic.core.device import Device
from disco_magic.devices.events import is_lost
from disco_magic.devices.gpu import GpuPlace
from disco_magic.testing.gpu.errors import CUDADriverError, CUDARuntimeError

# Of PyTorch; it has the number under another name.
AcceleratorError = type("AcceleratorError", (RuntimeError,), {})


def of_torch(number):
    error = AcceleratorError("CUDA error: an illegal memory access was encountered")
    error.error_code = number
    return error


@pytest.mark.parametrize("make", [CUDARuntimeError, lambda status: CUDADriverError(status, "no"), of_torch])
def test_a_gpu_is_lost_if_any_library_says_so(make):
    assert is_lost(make(700))
    assert not is_lost(make(400))


def test_other_errors_with_a_number_say_nothing_of_gpus():
    class Refused(Exception):
        status = property(lambda self: pytest.fail("somebody's own code"))

    error = OSError()
    error.status = 226
    assert not any(map(is_lost, (Refused(), error, KeyError(700))))


def test_a_note_is_made_once():
    place, error = GpuPlace.__new__(GpuPlace), of_torch(700)
    place.device = Device("cuda", 1)
    place.explain(error)
    place.explain(error)
    place.explain(quiet := ValueError())
    assert [note.partition(" by")[0] for note in error.__notes__] == ["cuda:1 can no longer be used"]
    assert not hasattr(quiet, "__notes__")
