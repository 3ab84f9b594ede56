"""Memory of the simulated GPU is lent to other libraries, and theirs is taken as it is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.testing.arrays import same


class Foreign:
    """An array of another library, which lends its memory by one of two protocols."""

    def __init__(self, array, *, by_interface):
        self.array = array
        if by_interface:
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream):
        return self.array.__dlpack__(stream=stream)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("code", "?bhilBHILefdFD")
def test_memory_of_another_library_is_taken_as_it_is(cupy, code, transposed):
    with cupy.cuda.Device(1):
        lent = cupy.asarray(np.arange(6).reshape(2, 3).astype(code))
        lent = lent.T if transposed else lent
        for take in (cupy.from_dlpack, cupy.asarray):
            taken = take(Foreign(lent, by_interface=take is cupy.asarray))
            assert (taken.data.ptr, taken.strides, taken.device.id) == (lent.data.ptr, lent.strides, 1)
            assert same(taken, lent.get())


def test_memory_that_was_lent_is_kept_until_the_borrower_lets_go(cupy):
    lent = cupy.ones(3)
    ptr = lent.data.ptr
    taken = cupy.from_dlpack(Foreign(lent, by_interface=False))
    del lent
    assert cupy.empty(3).data.ptr != ptr
    del taken
    assert cupy.empty(3).data.ptr == ptr


def test_a_capsule_that_nobody_takes_lets_go_of_the_array(cupy):
    lent = cupy.ones(3)
    ptr, capsule = lent.data.ptr, lent.__dlpack__(stream=-1)
    del lent
    assert cupy.empty(3).data.ptr != ptr
    del capsule
    assert cupy.empty(3).data.ptr == ptr


def test_the_borrowers_stream_waits_for_the_lenders(gpus, cupy, two_streams):
    a, b = two_streams
    with a:
        lent = cupy.zeros(3)
        a.synchronize()
    with gpus.hold(a):
        with a:
            lent.fill(5)
            capsule = lent.__dlpack__(stream=b.ptr)
        with b:
            seen = cupy.zeros(3)
            seen += lent
            assert not b.done
    assert seen.get(stream=b).tolist() == [5, 5, 5]
    del capsule


def test_a_stream_of_dlpack_is_never_0(x):
    with pytest.raises(ValueError, match="ambiguous"):
        x.__dlpack__(stream=0)
    assert x.__dlpack_device__() == (2, 0)


def test_memory_of_the_host_is_not_taken(cupy):
    class Near:
        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(BufferError, match=r"\(1, 0\)"):
        cupy.from_dlpack(Near())


def test_the_interface_names_the_current_stream(cupy, x):
    interface = x.T.__cuda_array_interface__
    assert interface["data"] == (x.data.ptr, False)
    assert (interface["shape"], interface["typestr"], interface["strides"]) == ((4, 3), "<f4", (4, 16))
    assert (interface["version"], interface["stream"]) == (3, 1)
    with cupy.cuda.Stream() as stream:
        assert x.__cuda_array_interface__["stream"] == stream.ptr
        assert x.__cuda_array_interface__["strides"] is None


def test_an_array_of_the_interface_is_waited_for(gpus, cupy, background):
    stream, order = cupy.cuda.Stream(non_blocking=True), []
    with stream:
        lent = Foreign(cupy.ones(3), by_interface=True)
    with gpus.hold(stream) as hold:
        stream.launch_host_func(order.append, "lender")
        taken = background(lambda: (cupy.asarray(lent), order.append("taken")))
        hold.release()
        taken()
    assert order == ["lender", "taken"]
