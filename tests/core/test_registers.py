"""The register file: values, poisons and names of one worker."""

from __future__ import annotations

from disco_magic.core.registers import ABSENT, Poison, RegisterFile
from disco_magic.errors import Failure


def poison(text="boom"):
    return Poison(Failure(0, 1, "call f", ValueError(text), text), reported=True)


def test_a_value_is_read_where_it_was_set():
    file = RegisterFile({})
    file.set(3, "three")
    assert file.values == {3: "three"}


def test_setting_a_poisoned_register_heals_it():
    file = RegisterFile({})
    file.poison(3, poison())
    file.set(3, "three")
    assert (file.values, file.poisons) == ({3: "three"}, {})


def test_poison_takes_the_value_away():
    file = RegisterFile({})
    file.set(3, "three")
    file.poison(3, poison())
    assert 3 not in file.values


def test_the_first_poison_of_a_register_stays():
    file = RegisterFile({})
    first = poison("first")
    file.poison(3, first)
    file.poison(3, poison("second"))
    assert file.poisons[3] is first


def test_a_killed_register_is_absent_whether_good_or_poisoned():
    file = RegisterFile({})
    file.set(1, "one")
    file.poison(2, poison())
    file.kill([1, 2])
    assert (file.values, file.poisons) == ({}, {})


def test_killing_an_absent_register_is_no_error():
    file = RegisterFile({})
    file.set(1, "one")
    file.kill([7, 8])
    assert file.values == {1: "one"}


def test_names_with_a_leading_underscore_are_no_registers():
    file = RegisterFile({"__name__": "w0", "_": 1, "b": 2, "a": 3})
    assert file.public_names() == ("b", "a")


def test_keys_of_a_namespace_that_are_no_text_are_no_registers():
    # A cell can do globals()[5] = ...; looking for a leading underscore in 5 ended the worker.
    file = RegisterFile({5: "five", "a": 1})
    assert file.public_names() == ("a",)
    assert file.contents() == [("a", 1)]


def test_contents_are_names_first_then_numbers_ascending_with_poisons():
    file = RegisterFile({"_hidden": 0, "x": 1})
    file.set(9, "nine")
    bad = poison()
    file.poison(2, bad)
    assert file.contents() == [("x", 1), ("#2", bad), ("#9", "nine")]


def test_one_registers_content_is_its_value_its_poison_or_nothing():
    file = RegisterFile({})
    file.set(1, None)
    bad = poison()
    file.poison(2, bad)
    assert [file.content(1), file.content(2), file.content(3)] == [None, bad, ABSENT]


def test_a_label_stands_for_a_name_or_a_number():
    file = RegisterFile({"_hidden": 0, "x": 1, 5: "five", "none": None})
    file.set(7, "seven")
    bad = poison()
    file.poison(8, bad)
    labels = ("x", "none", "#7", "#8")
    assert [file.labelled(label) for label in labels] == [1, None, "seven", bad]
    assert {file.labelled(label) for label in ("y", "_hidden", "5", "#9", "#", "#x", "#-7", "")} == {ABSENT}


def test_a_key_of_a_users_class_is_not_asked_whether_it_is_a_label():
    class Key:
        def __hash__(self):
            return hash("x")

        def __eq__(self, other):
            raise AssertionError("a user's code ran")

    assert RegisterFile({Key(): 1}).labelled("x") is ABSENT
