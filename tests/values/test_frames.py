"""What tables say of data frames of pandas and polars, where these are installed."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from disco_magic.values.describe import describe
from disco_magic.values.frames import columns_of
from disco_magic.values.sizes import nbytes_of
from tests.sampled import one_in


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


class Changing(threading.Thread):
    """Changes the columns of a frame until it is told to stop."""

    def __init__(self, pandas):
        super().__init__()
        self.pandas, self.frame, self.stop, self.rounds = (
            pandas,
            pandas.DataFrame({"a": np.arange(9)}),
            False,
            0,
        )

    def run(self):
        while not self.stop:
            self.frame = frame = self.pandas.DataFrame({"a": np.arange(9), "t": list("abcdefghi")})
            for number in range(20):
                frame[f"n{number}"] = np.arange(9) if number % 2 else "text"
                if number % 3 == 2:
                    del frame[frame.columns[1]]
                frame.insert(0, f"i{number}", 1.5)
            self.rounds += 1


# Measured, it takes four times as long: pandas' own steps are followed.
@pytest.mark.unmeasured
def test_a_frame_that_a_worker_is_changing_is_described_or_not_but_never_spoils_it(pandas):
    # Through pandas' own methods, this overwrote memory of the process now and then.
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    changing = Changing(pandas)
    changing.start()
    try:
        for _ in one_in(3, range(3000)):
            assert describe(changing.frame, 1000).type == "DataFrame"
    finally:
        changing.stop = True
        changing.join()
        sys.setswitchinterval(before)
    assert changing.rounds


def test_blocks_that_do_not_fit_together_are_not_looked_into(pandas):
    for spoil in (
        lambda manager: setattr(manager, "axes", [pandas.Index(["a"]), manager.axes[1]]),
        lambda manager: setattr(manager, "axes", [pandas.Index(list("abc")), manager.axes[1]]),
        lambda manager: setattr(manager, "blocks", manager.blocks[:1]),
        lambda manager: setattr(manager, "blocks", manager.blocks * 2),
    ):
        frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
        spoil(frame._mgr)
        assert describe(frame).fingerprint == b""
        with pytest.raises(RuntimeError, match="another thread is changing"):
            columns_of(frame)


def test_frames_of_polars_estimate_their_bytes_themselves():
    info = describe(pytest.importorskip("polars").DataFrame({"a": [1, 2, 3]}))
    assert (info.kind, info.text, info.nbytes) == ("DataFrame 3\N{MULTIPLICATION SIGN}1", "a Int64", 24)
