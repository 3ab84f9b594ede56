"""Memory that somebody has looked at and that is to be given back, on stand-ins for PyTorch's classes."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from disco_magic.errors import UsageMistake
from disco_magic.isolation.pytorch.storage import fit_flat_parameters, fit_profiler, fit_storage
from disco_magic.values.tensors import bits_of, memory_of
from tests.doubles.arrays import tensor


class Base:
    """A storage: NumPy's view keeps it from being resized."""

    def __init__(self, size, *, seen):
        self.size, self.seen = size, seen

    def resizable(self):
        return not self.seen

    def nbytes(self):
        return self.size

    def resize_(self, size):
        if self.seen:
            raise RuntimeError("Trying to resize storage that is not resizable")
        if size < 0:
            raise RuntimeError("a size below nothing")
        self.size = size
        return self


@pytest.fixture
def storage():
    """The class of storages, as it is while a session runs."""
    kind = type("UntypedStorage", (Base,), {})
    undo = fit_storage(SimpleNamespace(UntypedStorage=kind))
    yield kind
    undo()
    assert "resize_" not in vars(kind)
    undo()


def test_memory_that_was_seen_is_not_given_back(storage):
    seen = storage(8, seen=True)
    assert seen.resize_(0) is seen
    assert seen.resize_(8) is seen
    assert seen.size == 8


def test_all_other_sizes_are_refused_as_ever(storage):
    with pytest.raises(RuntimeError, match="not resizable"):
        storage(8, seen=True).resize_(16)
    with pytest.raises(RuntimeError, match="below nothing"):
        storage(8, seen=False).resize_(-1)


def test_memory_that_nobody_has_seen_is_given_back(storage):
    assert storage(8, seen=False).resize_(0).size == 0


class Flat:
    """A tensor of one axis with memory of its own."""

    def __init__(self, size, *, seen):
        self.storage = Base(size, seen=seen)

    def untyped_storage(self):
        return self.storage

    def size(self):
        return (self.storage.size,)

    def stride(self):
        return (1,)

    def new_empty(self, size):
        return Flat(*size, seen=False)

    def set_(self, storage, offset, size, stride):
        assert (offset, size, stride) == (0, self.size(), (1,))
        self.storage = storage


def test_where_memory_tells_whether_shards_are_there_it_is_exchanged_and_given_back():
    module = ModuleType("flat")
    module._free_storage = first = lambda tensor: tensor.storage.resize_(0)
    undo = fit_flat_parameters(module)
    seen, unseen = Flat(8, seen=True), Flat(8, seen=False)
    old, own = seen.storage, unseen.storage
    for each in (seen, unseen):
        module._free_storage(each)
        assert each.storage.size == 0
    assert old.size == 8
    assert unseen.storage is own
    undo()
    assert module._free_storage is first


def test_what_is_noted_in_one_place_for_all_is_not_noted():
    class SimpleProfiler:
        within: ClassVar = set()

        @classmethod
        @contextmanager
        def profile(cls, what):
            if what in cls.within:
                raise ValueError(what)
            cls.within.add(what)
            yield

    undo = fit_profiler(SimpleNamespace(SimpleProfiler=SimpleProfiler))
    for _ in range(2):
        with SimpleProfiler.profile("all"):
            assert SimpleProfiler.within == set()
    undo()
    with SimpleProfiler.profile("all"):
        assert SimpleProfiler.within == {"all"}


def test_while_somebody_begins_to_look_nothing_is_given_back(storage):
    looked, memory = tensor(np.ones(3), device="cpu"), storage(12, seen=False)
    looked.untyped_storage, order = lambda: SimpleNamespace(nbytes=memory.nbytes), []

    def numpy(**_):
        thread.start()
        thread.join(0.05)  # it waits for us
        order.append(memory.size)
        return looked._array

    thread = threading.Thread(target=memory.resize_, args=(0,))
    looked.numpy = numpy
    assert bits_of(looked) is looked._array
    thread.join()
    assert (order, memory.size) == ([12], 0)
    assert bits_of(looked) is None


def test_a_tensor_whose_memory_was_given_back_has_no_elements_to_be_seen():
    freed = tensor(np.ones(3), device="cpu")
    freed.untyped_storage = lambda: SimpleNamespace(nbytes=lambda: 0)
    assert bits_of(freed) is None
    with pytest.raises(UsageMistake, match="its memory was released: it has no elements at present"):
        memory_of(freed)
