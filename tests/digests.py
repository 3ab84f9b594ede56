"""What `DeviceDigests` gives, computed by NumPy from its description."""

from __future__ import annotations

import hashlib

import numpy as np


def _mixed(words):
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        words = (words ^ (words >> np.uint64(33))) * np.uint64(factor)
    return words ^ (words >> np.uint64(33))


def expected(host):
    """The digest of an array of these elements on a GPU."""
    content = host.tobytes()
    words = np.frombuffer(content + bytes(-len(content) % 8), "<u8")
    places = _mixed(np.arange(len(words), dtype="u8") + np.uint64(0x9E3779B97F4A7C15))
    turned = (places << np.uint64(32)) | (places >> np.uint64(32))
    sums = [_mixed(each).sum(dtype="u8") for each in (words ^ places, words + turned)]
    return hashlib.blake2b(np.array(sums).tobytes() + b"%d" % len(content), digest_size=16).digest()
