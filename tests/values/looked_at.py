"""Objects that hold things, and say nothing of themselves when they are looked at."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import pytest

from disco_magic.core.topology import Topology
from disco_magic.functions.context import WorkerContext

ONES = np.ones(3)


class Point(NamedTuple):
    x: int


class Base:
    """Has things.

    Attributes:
        weight: how heavy it is,
            in grams.
        first, second: two of them.
        empty: nothing
    """

    shared = 5

    def __init__(self, size=ONES, names=("a", 1), *, key=len, module=np, kind=int, odd=(Ellipsis,)):
        """Make it."""
        self.weight, self.first, self.second, self.third = 1.5, 1, 2, 3

    @property
    def costly(self):
        """What it costs."""
        raise AssertionError

    @classmethod
    def made(cls, n: int) -> Base:
        """Make one."""

    @staticmethod
    def plain(x: int, y=None) -> str:
        return "text"

    @functools.cached_property
    def cached(self):
        raise AssertionError

    def method(self, x, *rest, **others):
        """Do it."""

    def __getattr__(self, name):
        raise AssertionError(name)

    def __repr__(self):
        raise AssertionError


class Called(Base):
    def __init__(self):
        Base.__init__(self)

    def __call__(self, x):
        """Be called."""


class Slotted:
    __slots__ = ("filled", "free")

    def __init__(self):
        self.filled = 7


class Module:
    """Stands for a module of PyTorch."""

    def __init__(self):
        self._parameters, self._buffers, self._modules = {"weight": 1}, None, {"inner": Slotted()}

    def __getattr__(self, name):
        raise AssertionError(name)


Module.__module__ = "torch.nn.modules.module"


class Strange(type):
    @property
    def __doc__(cls):
        raise AssertionError

    @property
    def __signature__(cls):
        raise AssertionError


class Odd(metaclass=Strange):
    """Hidden."""


@pytest.fixture
def seen():
    worker = WorkerContext(1, Topology(4), None, None)
    bound = {
        "base": Base(),
        "Base": Base,
        "called": Called(),
        "slotted": Slotted(),
        "net": Module(),
        "array": np.arange(6.0).reshape(2, 3),
        "point": Point(1),
        "part": functools.partial(int, base=2),
        "odd": Odd,
        "number": 5,
        "_own": 1,
        "np": "shadowed",
    }
    return bound, {"np": np, "worker": worker, "allreduce": worker.allreduce, "len": len}
