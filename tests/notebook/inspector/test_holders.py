"""Who keeps a numbered register."""

from __future__ import annotations

import pytest

from disco_magic import ThreadedSession
from disco_magic.errors import UnknownName
from disco_magic.notebook.inspector.holders import MOST, holders, reference_of


@pytest.fixture
def session():
    with ThreadedSession(2) as made:
        yield made


def label(reference):
    return f"#{reference.register}"


def test_variables_and_items_of_containers_are_named(session):
    one, two, three = (session.store(number) for number in range(3))
    found = holders(
        session, {"x": one, "again": one, "many": [0, two], "by_name": {"w": three}, "_hidden": two}
    )
    assert found == {label(one): "x, again", label(two): "many[1]", label(three): "by_name['w']"}


def test_the_values_of_a_result_are_kept_by_it(session):
    result = session.run("worker_id * 10")
    found = holders(session, {"_oh": {3: result}, "Out": {3: result}, "r": result})
    assert found == {label(result.reference): "Out[3], r"}
    result.release()
    assert result.reference is None
    assert holders(session, {"r": result}) == {}


def test_a_reference_that_no_variable_holds_is_somebody_elses(session):
    kept = {session.store(1)}
    (reference,) = kept
    function = session.get_global_func("runtime.disco.worker_id")
    found = holders(session, {})
    assert found[label(reference)] == "a reference without name"
    assert found[label(function)] == "function runtime.disco.worker_id"


def test_the_value_of_a_cell_that_no_variable_holds_says_of_which(session):
    handle = session.run_nowait("7")
    reference = handle.wait().reference
    assert holders(session, {})[label(reference)] == f"value of {handle.label}"


def test_references_of_another_session_or_life_do_not_count(session):
    before = session.store(1)
    session.restart()
    with ThreadedSession(1) as other:
        elsewhere = other.store(1)
        assert holders(session, {"before": before, "elsewhere": elsewhere}) == {}


def test_keys_that_are_objects_of_the_user_are_not_shown(session):
    class Key:
        def __repr__(self):
            raise RuntimeError

    reference = session.store(1)
    assert holders(session, {"d": {Key(): reference}}) == {label(reference): "a reference without name"}


def test_a_reference_is_found_by_its_number(session):
    reference = session.store(1)
    assert reference_of(session, label(reference)) is reference
    number = label(reference)
    del reference
    with pytest.raises(UnknownName, match="nothing in the notebook refers to register #"):
        reference_of(session, number)
    with pytest.raises(UnknownName):
        reference_of(session, "#9999")


def test_a_reference_of_an_earlier_life_is_not_found(session):
    before = session.store(1)
    session.restart()
    with pytest.raises(UnknownName):
        reference_of(session, label(before))


def test_no_code_of_variables_is_run_and_long_lists_are_looked_at_in_part(session):
    class Pretender:
        @property
        def __class__(self):
            raise RuntimeError("asked")

    reference = session.store(1)
    found = holders(session, {"p": Pretender(), "long": [0] * MOST + [reference], "short": [reference]})
    assert found == {label(reference): "short[0]"}


def test_many_holders_are_counted_and_odd_names_are_left_out(session):
    reference = session.store(1)
    found = holders(session, {"refs": [reference] * 9, 5: reference})
    assert found == {label(reference): "refs[0], refs[1], refs[2] and 6 more"}
