"""What tables say of data frames: of pandas where it is installed, and of what looks like those of polars."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from disco_magic.values.describe import describe
from disco_magic.values.sizes import nbytes_of


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


def test_a_row_tells_rows_columns_dtypes_and_bytes(pandas):
    frame = pandas.DataFrame({"a": np.zeros(1000, "f4"), 7: np.zeros(1000, "i8"), ("x", 1): [None] * 1000})
    info = describe(frame)
    assert info.kind == "DataFrame 1000\N{MULTIPLICATION SIGN}3"
    assert info.text == "a float32, 7 int64, tuple object"
    assert info.nbytes == nbytes_of([frame]) == 1000 * (4 + 8 + 8)
    assert info.device == "cpu"
    assert info.fingerprint == b""


def test_of_many_columns_the_first_ones_fill_the_line(pandas):
    text = describe(pandas.DataFrame({f"column {i}": [1] for i in range(1000)})).text
    assert text.startswith("column 0 int64, column 1 int64, ")
    assert len(text) == 60


def test_columns_that_are_called_as_attributes_of_arrays_are_columns(pandas):
    info = describe(pandas.DataFrame({"dtype": [1], "device": [2], "nbytes": [3], "shape": [4]}))
    assert info.kind == "DataFrame 1\N{MULTIPLICATION SIGN}4"
    assert (info.dtype, info.device, info.nbytes) == (None, "cpu", 4 * 8)


def test_a_header_alone_does_not_look_at_the_columns(pandas):
    assert describe(pandas.DataFrame({"a": [1]}), sample=0).text == ""


def test_an_empty_one_has_no_columns_to_tell(pandas):
    assert describe(pandas.DataFrame()).kind == "DataFrame 0\N{MULTIPLICATION SIGN}0"


def test_classes_derived_from_one_are_not_asked(pandas):
    class Mine(pandas.DataFrame):
        def memory_usage(self, *_, **__):
            raise AssertionError

    assert describe(Mine({"a": [1]})).kind == "Mine"
    assert nbytes_of(Mine({"a": [1]})) == 0


def test_frames_of_polars_estimate_their_bytes_themselves(monkeypatch):
    class DataFrame:
        shape, columns, dtypes = (3, 1), ["a"], [np.dtype("i8")]

        def estimated_size(self):
            return 24

    library = types.ModuleType("polars")
    library.DataFrame = DataFrame
    monkeypatch.setattr(DataFrame, "__module__", "polars.dataframe.frame")
    monkeypatch.setitem(sys.modules, "polars", library)
    info = describe(DataFrame())
    assert (info.kind, info.text, info.nbytes) == ("DataFrame 3\N{MULTIPLICATION SIGN}1", "a int64", 24)
