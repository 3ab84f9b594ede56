"""The array of the host that tests of the simulated GPU's arrays begin with, and what they compare."""

from __future__ import annotations

import numpy as np

HOST = np.arange(12, dtype=np.float32).reshape(3, 4)


def same(device, host):
    """Whether an array on the device has shape, dtype and elements of one on the host."""
    got = device.get()
    assert (got.dtype, got.shape) == (host.dtype, host.shape)
    assert (device.dtype, device.shape) == (host.dtype, host.shape)
    np.testing.assert_array_equal(got, host)
    return True
