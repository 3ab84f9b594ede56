"""Every fault of the matrix: the expected error, raised once, and a session that goes on."""

from __future__ import annotations

import pytest

from tests.faults import WAYS, Fault, Faulty, matrix


@pytest.mark.parametrize("fault", matrix(), ids=str)
@pytest.mark.parametrize("n", [1, 3])
def test_an_object_that_fails_gives_one_clear_error_and_the_session_goes_on(session, fault: Fault, n):
    s = session(n)
    with pytest.raises(fault.expected) as caught:
        fault.provoke(s)
    if hasattr(caught.value, "failures"):
        assert sorted(caught.value.failures) == list(range(n))
        assert all(
            f.exception is fault.error or f.exception.__cause__ is fault.error
            for f in caught.value.failures.values()
        )
    else:
        assert fault.error in (caught.value, caught.value.__cause__)
    s.sync_all()
    assert s.run("allreduce(1)").values == [n] * n


@pytest.mark.parametrize("way", WAYS)
def test_a_value_that_cannot_be_pickled_is_compared_by_its_text(session, way):
    s = session(2)
    things = Faulty("pickle", WAYS[way])
    s["thing"] = s.call_packed(lambda: things)
    if isinstance(WAYS[way], Exception):
        assert repr(s.run("thing")) == "[0-1] Faulty"
    else:
        with pytest.raises(Exception, match="failed on worker"):
            s.run("thing")
    assert s.run("1").values == [1, 1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", WAYS)
def test_a_value_that_fails_when_it_is_dropped_disturbs_nobody(session, way):
    s = session(2)
    ref = s.call_packed(Faulty, "drop", WAYS[way])
    s.sync_all()
    del ref
    s.sync_all()
    assert s.run("allreduce(1)").values == [2, 2]


@pytest.mark.parametrize("way", ["exception", "memory"])
def test_a_result_that_fails_while_it_is_fetched_keeps_its_register(session, way):
    s = session(1)
    thing = Faulty("copy on a worker", WAYS[way], [2])
    ref = s.call_packed(lambda: thing)
    for _ in range(2):
        with pytest.raises(Exception, match="cannot be copied") as caught:
            ref.get(0)
        assert caught.value.origin.exception.__cause__ is WAYS[way]
    assert ref.info().cells[0].type == "Faulty"
