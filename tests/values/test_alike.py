"""Which results of a cell are shown as one, where not all that is in them can be compared or pickled."""

from __future__ import annotations

import threading
import types
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest

from disco_magic.values.alike import digest_of_result


def weights(value):
    """Elements of which the one that differs is not shown."""
    made = np.zeros(5000)
    made[2500] = value
    return made


class Holder:
    def __init__(self, **held):
        self.__dict__.update(held)

    def __repr__(self):
        return "Holder"


class Slotted:
    __slots__ = ("lock", "w")

    def __init__(self, w):
        self.w, self.lock = w, threading.Lock()

    def __repr__(self):
        return "Slotted"


class Listed(list):
    def __repr__(self):
        return "Listed"


class Unwilling:
    """Cannot be pickled, and has no text."""

    def __reduce__(self):
        raise RuntimeError("no")

    __repr__ = __reduce__


@dataclass
class State:
    w: object
    lock: object = field(default_factory=threading.Lock, repr=False)


def alike(make):
    """Whether results with equal weights are shown as one, and whether those with others are."""
    first, equal, other = (make(weights(value)) for value in (1, 1, 2))
    digests = [digest_of_result(each, {"text/plain": repr(each)}) for each in (first, equal, other)]
    return digests[0] == digests[1], digests[0] == digests[2]


@pytest.mark.parametrize(
    "odd",
    [
        threading.Lock,
        partial(ThreadPoolExecutor, 1),
        lambda: memoryview(b"a"),
        lambda: weakref.ref(Holder),
        lambda: np,
        lambda: iter({}.keys()),
        lambda: (i for i in ()),
        Unwilling,
        lambda: type("Local", (), {}),
    ],
    ids=["lock", "executor", "memory", "weak", "module", "iterator", "generator", "unwilling", "class"],
)
def test_what_differs_is_shown_apart_whatever_is_beside_it(odd):
    assert alike(lambda w: Holder(w=w, odd=odd())) == (True, False)
    assert alike(lambda w: [Holder(odd=odd(), inner=[{"w": w}])]) == (True, False)
    assert alike(lambda w: Holder(keyed={(1, 2): w, (3, 4): odd()})) == (True, False)


@pytest.mark.parametrize(
    "make",
    [
        State,
        Slotted,
        lambda w: Listed([w, threading.Lock()]),
        lambda w: np.array([w, threading.Lock()], object),
        lambda w: types.MappingProxyType({"w": w}),
        lambda w: {"w": w}.values(),
        lambda w: {"w": w}.items(),
        lambda w: {w.tobytes(): 1}.keys(),
        lambda w: partial(threading.Lock().acquire, w),
        lambda w: Holder(memory=memoryview(w)),
    ],
    ids=range(10),
)
def test_what_cannot_be_pickled_is_told_apart_by_what_is_in_it(make):
    assert alike(make) == (True, False)


def test_what_has_no_end_and_no_pickle_is_told_apart_too():
    def make(w):
        made = Holder(lock=threading.Lock(), keyed={})
        made.keyed[1, 2] = made, w
        return made

    assert alike(make) == (True, False)


def test_objects_of_libraries_that_cannot_be_pickled_are_represented_by_their_text():
    # The names and counters in them are each worker's own.
    def make(name):
        return Holder(w=1, thread=threading.Thread(name=name))

    one, other, another = (digest_of_result(make(name), None) for name in ("a", "a", "b"))
    assert one == other != another


def test_of_modules_compiled_by_torchscript_parameters_are_compared():
    kind = type("RecursiveScriptModule", (Unwilling,), {"__module__": "torch.jit._script", "code": "pass"})

    def make(w):
        made = kind()
        made.state_dict = lambda: {"w": w}
        return Holder(net=made)

    assert alike(make) == (True, False)
