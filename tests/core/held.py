"""What workers hold, in short: the pictures of registers that checks compare."""

from __future__ import annotations

from disco_magic.core.circles import Circles
from disco_magic.core.divergence import compare
from disco_magic.core.held import Found, Held
from disco_magic.core.report import CheckReport

FLOAT = Held("ndarray", (3, 4), "float32", "cpu")
DOUBLE = Held("ndarray", (3, 4), "float64", "cpu")
LONG = Held("ndarray", (9, 4), "float32", "cpu")
INT = Held("int")


def found(*workers, marked=()):
    """One `Found` per worker from dictionaries of a register's own picture, or of its and its parts'."""
    return {
        number: Found(
            frozenset(),
            dict.fromkeys(marked, ()),
            {
                name: ((name, held),) if isinstance(held, Held) else tuple(held.items())
                for name, held in registers.items()
            },
        )
        for number, registers in enumerate(workers)
    }


def circles_of(workers):
    """All, or groups."""
    return Circles(workers, [f"group {number}" for number in range(len(workers))] if len(workers) > 1 else ())


def report(*workers, circles=None, names=None, by_value=()):
    held = found(*workers)
    asked = names or dict.fromkeys(name for registers in workers for name in registers)
    rows = compare(held, circles_of(circles or (tuple(held),)), names=asked, by_value=by_value)
    return CheckReport("Cell In[7]", tuple(held), rows)


def value(text, digest):
    return Held("ndarray", (2,), "int64", "cpu", text=text, digest=digest)
