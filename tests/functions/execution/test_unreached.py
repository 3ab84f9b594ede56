"""Names that code binds and had not bound when it ended."""

from __future__ import annotations

import pytest

from disco_magic.functions.execution.bindings import unreached


def ended(source):
    """Names that it had not come to when it raised."""
    code, namespace = compile(source, "<cell>", "exec"), {}
    try:
        exec(code, namespace)
    except ZeroDivisionError as error:
        return unreached(code, error.__traceback__.tb_next.tb_lasti)
    raise AssertionError("it did not end")


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("a = 1\nb = 1 / 0\nc = 2", {"b", "c"}),
        ("a = 1\nb = 2\na = 1 / 0", set()),  # it holds what this run has bound
        ("import json\n1 / 0\nimport os.path as p\ndef f(): pass\nclass C: pass", {"p", "f", "C"}),
        ("a, b = 1 / 0", {"a", "b"}),
        ("def f():\n    global g\n    g = 1\nf()\n1 / 0\ng = 2\nh = 2", {"h"}),
        ("if 1 / 0:\n    a = 1\nelse:\n    b = 1\nc = 1", {"a", "b", "c"}),
        ("for k in range(3):\n    if k == 2: 1 / 0\n    a = k\nb = 1", {"b"}),
        ("k = 0\nwhile k < 3:\n    k += 1\n    if k == 2: 1 / 0\n    a = k\nb = 1", {"b"}),
        ("for i in range(2):\n    for k in range(2): a = 1\n    1 / (1 - i)\n    b = 1\nc = 1", {"c"}),
        ("for k in range(3):\n    a = k\nb = 1 / 0", {"b"}),
        ("try:\n    1 / 0\n    a = 1\nfinally:\n    b = 1", {"a"}),
        ("try:\n    1 / 0\n    a = 1\nexcept KeyError:\n    b = 1", {"a"}),
        ("with open(1 / 0) as f:\n    a = 1", {"f", "a"}),
        ("a = [k for k in range(3) if 1 // k]\nb = 1", {"a", "b"}),
    ],
)
def test_names_that_code_had_not_come_to(source, names):
    assert names <= ended(source) <= names | {"__annotations__"}


def test_a_loop_that_jumps_back_far_is_one_too():
    body = "\n".join(f"    x{number} = k" for number in range(300))
    source = f"for k in range(3):\n    if k == 1: 1 / 0\n{body}\nend = 1"
    assert ended(source) == {"end"}
