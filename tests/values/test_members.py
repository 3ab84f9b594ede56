"""What dotted paths mean, without running code of the values."""

from __future__ import annotations

import functools
import types

import numpy as np
import pytest

from disco_magic.values.documents import document
from disco_magic.values.members import (
    NOTHING,
    Member,
    attribute,
    kind_of,
    look_up,
    member,
    names_of,
    registers_among,
    visible,
)
from tests.values.looked_at import Base


def value(seen, path):
    found = member(*seen, path.split("."))
    return NOTHING if found is None else found.value


def test_paths_lead_to_what_objects_hold(seen):
    bound = seen[0]
    assert value(seen, "base.weight") == 1.5
    assert value(seen, "base.shared") == value(seen, "Base.shared") == 5
    assert value(seen, "slotted.filled") == 7
    assert value(seen, "net.weight") == 1
    assert value(seen, "net.inner.filled") == 7
    assert np.array_equal(value(seen, "array.T"), bound["array"].T)
    assert value(seen, "array.dtype.name") == "float64"
    assert value(seen, "point.x") == 1
    assert value(seen, "worker.id") == value(seen, "worker.worker_id") == 1
    assert value(seen, "np") == "shadowed"
    assert value(seen, "base.method") == bound["base"].method
    assert value(seen, "base.made") == value(seen, "Base.made") == Base.made
    assert value(seen, "base.plain") is value(seen, "Base.plain") is Base.plain
    assert value(seen, "Base.method") is Base.method
    assert value(seen, "number.bit_length")() == 3
    assert value(seen, "number.from_bytes")(b"\1", "big") == 1


def test_a_module_s_attributes_are_followed():
    assert member({}, {"np": np}, ["np", "linalg", "norm"]).value is np.linalg.norm


def test_properties_are_themselves_and_end_a_path(seen):
    assert value(seen, "base.costly") is value(seen, "Base.costly") is Base.costly
    assert value(seen, "base.costly.real") is NOTHING
    assert type(value(seen, "base.cached")) is functools.cached_property


@pytest.mark.parametrize(
    "path", ["nobody", "base.nothing", "base.nothing.more", "slotted.free", "net.nothing", "net.bias"]
)
def test_paths_that_lead_nowhere_mean_nothing(seen, path):
    assert value(seen, path) is NOTHING
    assert look_up(*seen, path.split(".")) is None
    assert document(*seen, path.split("."), False) == []


def test_names_are_those_that_cells_see(seen):
    names = {**seen[0], "__name__": "x", 5: "no text", "__builtins__": seen[1]}
    with visible(names) as (bound, behind):
        assert "number" in bound
        assert "__name__" in bound
        assert 5 not in bound
        assert behind == seen[1]
        assert behind is not seen[1]
        assert set(names_of(bound, behind)) == set(seen[0])
    assert (bound, behind) == ({}, {})
    with visible({"__builtins__": types}) as (bound, behind):
        assert behind == {}


def test_registers_are_described_without_looking_into_them(seen):
    found = dict(registers_among(*seen, ["array", "_own", "worker", "number"]))
    assert set(found) == {"array", "number"}
    assert (found["array"].shape, found["array"].mean) == ((2, 3), None)


def test_looking_up_tells_registers_and_definitions(seen):
    info, is_register, is_definition = look_up(*seen, ["array"])
    assert (info.kind, info.maximum, is_register, is_definition) == ("float64 2\u00d73", 5.0, True, False)
    assert look_up(*seen, ["_own"]).is_register is False
    assert look_up(*seen, ["array", "T"]).is_register is False
    assert look_up(*seen, ["worker", "id"])[1:] == (False, False)
    assert look_up(*seen, ["Base"])[1:] == (True, True)


def test_a_class_of_a_cell_has_the_same_name_on_every_worker(seen):
    seen[0]["here"] = type("Here", (), {"__module__": "__disco__"})()
    assert look_up(*seen, ["here"]).info.text == "Here"


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (np, "module"),
        (Base, "class"),
        (Base.costly, "property"),
        (len, "function"),
        (np.add, "function"),
        (Base.made, "function"),
        (functools.partial(int), "function"),
        (5, "instance"),
        (np.ones(2), "instance"),
    ],
)
def test_kinds_are_told_apart(made, kind):
    assert kind_of(made) == kind
    assert Member(made).is_definition == (kind != "instance")


def test_an_object_that_makes_up_attributes_is_not_asked():
    assert attribute(Base(), "anything") is NOTHING
