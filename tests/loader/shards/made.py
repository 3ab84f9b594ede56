"""Parameters, what cuts them, and what workers shall get of them."""

from __future__ import annotations

import json

import numpy as np

WHOLE = {
    "param_0": np.arange(72, dtype="f4").reshape(12, 6),
    "param_1": np.arange(5, dtype="i8"),
    "param_2": np.arange(144, dtype="f8").reshape(12, 12),
}


def files(arrays):
    """Two files, so that a loader changes between them; the list begins with the last parameters."""
    names = list(arrays)
    return {"b.bin": {name: arrays[name] for name in names[1:]}, "a.bin": {names[0]: arrays[names[0]]}}


def steps(n):
    """Parameter 0 is cut along axis 0, parameter 2 negated and cut along axis 1."""
    return {
        "param_0": [["test.axis_0", [[n, 12 // n, 6], "float32"], n]],
        "param_2": [
            ["test.negated", [[12, 12], "float64"]],
            ["test.axis_1", [[n, 12, 12 // n], "float64"], n],
        ],
    }


def expected(rank, n):
    return [
        np.split(WHOLE["param_0"], n)[rank],
        WHOLE["param_1"],
        np.split(-WHOLE["param_2"], n, axis=1)[rank],
    ]


def loader_of(s, path, info="", *more):
    return s.call_packed(
        "runtime.disco.ShardLoader", str(path), path.read_text(), info and json.dumps(info), *more
    )


def same(got, wanted):
    assert [(array.dtype, array.shape) for array in got] == [(array.dtype, array.shape) for array in wanted]
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.flags.writeable
