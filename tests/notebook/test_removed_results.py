"""`%disco rm` of results of cells."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError, UnknownName, UsageMistake
from disco_magic.session.current import session


def names(shell):
    return session().names()


def numbered(shell):
    """How many registers without a name the workers hold."""
    session().sync_all()
    return len(session().registers(numbered=True).rows) - len(names(shell))


@pytest.mark.parametrize("name", ["Out[3]", "_3", "_", "mine"])
def test_rm_of_a_result_frees_its_values_and_keeps_what_it_shows(crew, name):
    before = numbered(crew)
    result = crew.run("%%disco --out mine\nx = 5\nx")
    assert crew.ip.user_ns["Out"][3] is result
    shown = repr(result)
    assert numbered(crew) == before + 1
    crew.run(f"%disco rm {name}")
    assert numbered(crew) == before
    assert repr(crew.ip.user_ns["Out"][3]) == shown
    with pytest.raises(UsageMistake, match="were released"):
        result[0]


def test_status_in_the_same_cell_says_what_is_left(crew):
    crew.run("%%disco\nnp.ones(1000)")
    crew.run("%disco status")
    assert "that results and references keep" in crew.out
    crew.run("%disco rm Out[3]\n%disco status")
    assert "that results and references keep" not in crew.out


def test_rm_of_the_last_result_frees_its_memory(crew):
    crew.run("%%disco\nimport weakref\nclass Big:\n    pass\nbig = Big()\nseen = weakref.ref(big)\nbig")
    crew.run("%disco rm big Out[3]\n%disco sync")
    crew.run("%%disco\nprint(seen())")
    assert set(crew.lines) == {f"[{worker}] None" for worker in range(crew.n)}


def test_rm_of_a_result_that_is_none_raises_nothing_later(crew):
    crew.run("%%disco -o mine\nx = 5\nNone")
    crew.run("%disco rm mine\n%disco sync")


def test_rm_of_an_earlier_result_keeps_the_last_one(crew):
    crew.run("%%disco\n[5]")
    crew.run("%%disco\n[6]")
    crew.run("%disco rm Out[3]")
    crew.run("%%disco\n_")
    assert crew.out.endswith(" [6]\n")


@pytest.mark.parametrize("command", ["restart", "stop"])
def test_rm_of_a_result_of_workers_that_have_ended_is_silent(crew, command):
    crew.run("%%disco\n5")
    crew.run(f"%disco {command}\n%disco rm Out[3]\n1")


def test_rm_of_a_result_that_only_some_workers_have_raises_nothing_later(crew):
    error = crew.fail("%%disco\n1 / worker_id", CellError)
    error.result.release()
    crew.run("%disco sync")


def test_rm_takes_a_register_before_a_result_of_the_same_name(crew):
    result = crew.run("%%disco --out x\nx = 5\nx")
    crew.run("%disco rm x")
    assert names(crew) == ()
    assert result[0] == 5


def test_rm_of_something_that_is_no_result_removes_nothing(crew):
    crew.ip.user_ns["plain"] = 1
    result = crew.run("%%disco\nx = 5\nx")
    assert "Out[99] holds no result of a %%disco cell" in str(crew.fail("%disco rm x Out[99]", UnknownName))
    assert "register 'plain' is not defined" in str(crew.fail("%disco rm x _3 plain", UnknownName))
    assert names(crew) == ("x",)
    assert result[0] == 5


def test_rm_of_a_result_of_a_stopped_session_is_no_error(crew):
    result = crew.run("%%disco\n5")
    crew.run("%disco stop\n%disco rm _3")
    with pytest.raises(UsageMistake, match="were released"):
        result[0]
    assert "no session is running" in str(crew.fail("%disco rm x", UsageMistake))


def test_help_of_rm_says_that_it_takes_results(shell):
    shell.run("%disco rm -h")
    assert "Out[3]" in shell.out
