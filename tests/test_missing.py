"""What our objects say of attributes that they have not, and do not offer."""

from __future__ import annotations

import inspect

import pytest

from disco_magic.functions.context import WorkerContext
from disco_magic.notebook.handle import CellHandle
from disco_magic.offers import Missing, Offers
from disco_magic.session.config import ThreadedSession
from disco_magic.session.pending import PendingCell


class Basket(Offers):
    _not_offered = frozenset({"inner"})

    inner = apples = 1
    pears = Missing("pears", "{kind!r} has no {name}: take the apples")


class Full(Basket):
    pears = 2


def test_what_is_missing_is_not_offered_unless_a_derived_class_has_it():
    assert [name for name in dir(Basket()) if not name.startswith("_")] == ["apples"]
    assert [name for name in dir(Full()) if not name.startswith("_")] == ["apples", "pears"]
    assert Full().pears == 2


def test_what_is_missing_is_offered_of_an_object_that_somebody_has_given_it_to():
    filled = Basket()
    filled.pears = 3
    assert "pears" in dir(filled)


def test_what_is_missing_says_what_to_write_instead():
    with pytest.raises(AttributeError, match=r"^'Basket' has no pears: take the apples$") as caught:
        Basket().pears  # noqa: B018 - that it fails
    assert caught.value.name == "pears"
    assert isinstance(caught.value.obj, Basket)
    assert not hasattr(Basket, "pears")
    assert "pears" not in dict(inspect.getmembers(Basket()))


@pytest.mark.parametrize("kind", [ThreadedSession, PendingCell, CellHandle, WorkerContext])
def test_classes_whose_attributes_every_command_reads_have_no_function_for_missing_ones(kind):
    """With a `__getattr__` in its class, each attribute that is there takes ten times as long (CPython 3.11).

    A call reads fifteen of the session's: enqueueing one took 2.5 us in place of 1.9.
    """
    assert not hasattr(kind, "__getattr__")
