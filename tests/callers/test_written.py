"""How the arguments of a call are written in its line."""

from __future__ import annotations

import linecache
import sys

import pytest

from disco_magic.callers.source_text import names_of_arguments


def called(*values, **_):
    return names_of_arguments(sys._getframe(1), "called", len(values))


class this:  # noqa: N801 - as a worker is written
    called = staticmethod(called)


x, rows = 1, [1, 2]


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (this.called(), []),
        (this.called(x), ["x"]),
        (this.called(x, rows[0], over=x), ["x", "rows[0]"]),
        (this.called(x, "wörter"), ["x", '"wörter"']),
        ([this.called(x), this.called(rows)][1], ["rows"]),
        (this.called(x, this.called(rows)), ["x", "this.called(rows)"]),
        (
            this.called(
                x,
                rows,
            ),
            ["x", "rows"],
        ),
        (
            this.called(
                [
                    x,
                    2,
                ]
            ),
            ["value 1"],
        ),
        (called(x), ["value 1"]),
        (list(map(this.called, [x])), [["value 1"]]),
        (this.called(*rows), ["value 1", "value 2"]),
        (this.called(x, x), ["x", "value 2"]),
        (this.called(x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x), ["value 1"]),
    ],
)
def test_arguments_are_called_as_they_are_written(found, names):
    assert found == names


@pytest.mark.parametrize(
    "lines", [[], ["something else (\n"], ["this.called(1, 2)\n"], ["x\n"], ["\xe4" * 9]]
)
def test_where_the_lines_are_gone_they_have_numbers(lines):
    filename = "<gone>"
    linecache.cache[filename] = (1, None, lines, filename)
    code = compile("found = this.called(x)", filename, "exec")
    names = {"this": this, "x": 1}
    exec(code, names)
    del linecache.cache[filename]
    assert names["found"] == ["value 1"]


def test_without_places_they_have_numbers():
    code = compile("found = this.called(x)", __file__, "exec")
    names = {"this": this, "x": 1}
    exec(code.replace(co_linetable=b""), names)
    assert names["found"] == ["value 1"]
