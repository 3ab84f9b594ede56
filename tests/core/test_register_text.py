"""A table of registers in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from disco_magic.core.register_text import snapshot_text
from disco_magic.core.snapshot import RegisterInfo, Row, SessionSnapshot

X = RegisterInfo("ndarray", (3,), "float32", "cuda:0", 12, "[1. 1. 1.]", fingerprint=b"x")


@pytest.mark.parametrize(
    ("devices", "told"),
    [
        (["cuda:0", "cuda:0"], "cuda:0"),
        (["cuda:0", "cuda:1", "cuda:2", "cuda:5"], "cuda:[0-2,5]"),
        (["cuda:9", "cuda:10"], "cuda:[9-10]"),
        (["cuda:3", "cuda:1"], "cuda:[3,1]"),
        (["gpu", "gpu:?"], "gpu, gpu:?"),
    ],
)
def test_one_line_for_all_names_the_gpus_of_all(devices, told):
    cells = tuple(replace(X, device=device) for device in devices)
    text = snapshot_text(SessionSnapshot(1, len(cells), (Row("x", cells),)))
    assert f"[0-{len(cells) - 1}] float32 3 \u00b7 {told} \u00b7 12 B \u00b7 [1. 1. 1.]" in text


def test_numbers_have_few_digits_unless_they_differ_in_more():
    # Only HTML tables were short: `0.30000000000000004` filled a column of a terminal with no information.
    infos = (RegisterInfo("float", text="0.30000000000000004"), RegisterInfo("float", text="1.3"))
    assert [line.split()[-1] for line in repr(Row("f", infos)).splitlines()] == ["0.3", "1.3"]
    near = (
        RegisterInfo("float", text="0.3333333333333333"),
        RegisterInfo("float", text="0.3333333333343333"),
    )
    shown = [line.split()[-1] for line in repr(Row("f", near)).splitlines()]
    assert shown == ["0.333333333333", "0.333333333334"]
