"""A worker's part of a stored tensor."""

from __future__ import annotations

import os

import numpy as np


def part(tensor, axis, rank, count):
    out = np.zeros(tensor.part_shape(axis, count), tensor.dtype)
    for _ in tensor.copy_to(out, axis, rank):
        pass
    return out


def descriptors(path):
    """How many of this process's are of the file."""
    return sum(os.path.realpath(entry.path) == str(path) for entry in os.scandir("/proc/self/fd"))
