"""What classes are called, whatever their metaclasses and dictionaries say."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.errors import NoPicture
from disco_magic.values.describe import describe
from disco_magic.values.elements import elements_of
from disco_magic.values.kinds import home_of, module_of, name_of, qualname_of


class Asked(type):
    def __getattribute__(cls, name):
        raise RuntimeError(name)


class Hidden(metaclass=Asked):
    pass


class Module:
    def __str__(self):
        raise RuntimeError("asked")


class Odd:
    __module__ = Module()


def test_names_come_from_python_and_not_from_the_metaclass():
    assert (name_of(Hidden), qualname_of(Hidden)) == ("Hidden", "Hidden")
    assert module_of(Hidden).endswith("test_kinds")
    assert home_of(np.ma.MaskedArray) == "numpy"


def test_a_module_that_is_no_text_is_not_asked_what_it_is():
    assert (module_of(Odd), home_of(Odd)) == ("?", "?")
    assert describe(Odd()).text == "?.Odd"


def test_what_has_no_elements_is_refused_without_asking_its_class():
    for value in (Hidden(), Odd()):
        with pytest.raises(NoPicture, match=r"has no elements to show$"):
            elements_of(value)


def test_what_has_parts_with_elements_is_pointed_to_them():
    told = r"a value of type dict has no elements to show; its parts may have: choose one of them$"
    with pytest.raises(NoPicture, match=told):
        elements_of({"w": np.ones(2)})
    with pytest.raises(NoPicture, match=r"type list has no elements to show; give an array of it a name"):
        elements_of([1, 2])
    with pytest.raises(NoPicture, match=r"has no elements to show$"):
        elements_of([])
