"""What is read in these tests, and what it leaves open."""

from __future__ import annotations

import os

import numpy as np

from disco_magic.loader.pages import Reader


def part(tensor, axis, rank, count, reader=None):
    out = np.zeros(tensor.part_shape(axis, count), tensor.dtype)
    for _ in tensor.copy_to(out, axis, rank, reader or Reader()):
        pass
    return out


def descriptors():
    return len(os.listdir("/proc/self/fd"))
