"""Element types by their names in parameter files."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from disco_magic.errors import MissingDependency, UsageMistake
from disco_magic.loader import dtypes
from tests.loader.files import CODES

PLAIN = [name for name in CODES if "bfloat" not in name and "float8" not in name]


@pytest.mark.parametrize("name", PLAIN)
def test_types_of_numpy_are_found_under_both_names(name):
    assert dtypes.of_safetensors(CODES[name], "x") == dtypes.named(name, "x") == np.dtype(name)


@pytest.mark.parametrize("name", [name for name in CODES if name not in PLAIN])
def test_other_types_come_from_ml_dtypes(name):
    kinds = pytest.importorskip("ml_dtypes")
    if not hasattr(kinds, name):
        pytest.skip(f"this ml_dtypes has no {name}")
    assert (
        dtypes.of_safetensors(CODES[name], "x") == dtypes.named(name, "x") == np.dtype(getattr(kinds, name))
    )


@pytest.mark.parametrize(
    "call",
    [lambda: dtypes.of_safetensors("F4", "m: tensor 'a'"), lambda: dtypes.named("F4", "m: tensor 'a'")],
)
def test_an_unknown_type_is_refused_with_those_that_can_be_read(call):
    with pytest.raises(
        UsageMistake, match=r"m: tensor 'a': the dtype is 'F4', which cannot be read; those.*I8|int8"
    ):
        call()


def test_without_ml_dtypes_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(
        MissingDependency, match=r"m: the dtype is bfloat16, .* pip install \"disco-magic\[loader\]\""
    ):
        dtypes.of_safetensors("BF16", "m")


def test_an_ml_dtypes_that_is_too_old_is_said_so(monkeypatch):
    old = types.ModuleType("ml_dtypes")
    old.__version__ = "0.1"
    monkeypatch.setitem(sys.modules, "ml_dtypes", old)
    with pytest.raises(MissingDependency, match=r"the installed ml_dtypes 0\.1 does not have"):
        dtypes.named("float8_e8m0fnu", "m")
