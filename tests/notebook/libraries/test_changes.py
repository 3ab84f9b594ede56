"""Who changes libraries, when, and how it is undone."""

from __future__ import annotations

import sys
import threading
import warnings
from functools import partial
from types import ModuleType

import pytest

from disco_magic.isolation.imported import Libraries, each_of


class User:
    """Somebody who wants libraries changed."""


@pytest.fixture
def libraries(module_of):
    """`Libraries` that changes one module that is there and one that is not; `log` says what was done."""
    there, later = module_of(""), module_of("")
    __import__(there)
    log = []

    def fit(module):
        name = "there" if module.__name__ == there else "later"
        log.append(name)
        return lambda: log.append(f"not {name}")

    libraries = Libraries({there: fit, later: fit})
    libraries.log, libraries.later = log, later
    before = list(sys.meta_path)
    yield libraries
    assert sys.meta_path == before


def test_what_is_there_is_changed_at_once_and_the_rest_when_it_is_imported(libraries):
    user = User()
    for _ in range(2):
        libraries.enter(user)
    assert libraries.log == ["there"]
    __import__(libraries.later)
    assert libraries.log == ["there", "later"]
    libraries.leave(user)
    assert libraries.log == ["there", "later", "not later", "not there"]
    libraries.leave(user)


def test_the_last_user_undoes_it_and_one_that_is_gone_is_no_user(libraries):
    users = [User(), User(), User()]
    for user in users:
        libraries.enter(user)
    gone = users.pop()
    del user, gone
    libraries.leave(users[0])
    assert libraries.log == ["there"]
    libraries.leave(users[1])
    assert libraries.log == ["there", "not there"]
    __import__(libraries.later)
    assert libraries.log == ["there", "not there"]


def test_what_changes_one_library_may_import_another(module_of, background):
    # Imports under the lock call `_fit` again, on the same thread.
    user, log = User(), []
    inner, outer = module_of(""), module_of("")

    def fit_outer(module):
        __import__(inner)
        log.append(module.__name__)

    libraries = Libraries({outer: fit_outer, inner: lambda module: log.append(module.__name__)})
    libraries.enter(user)
    background(__import__, outer)()
    libraries.leave(user)
    assert log == [inner, outer]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        AttributeError("it has no such thing"),
        TypeError("it is something else"),
        ValueError("it requires a code object with 1 free vars, not 0"),
    ],
)
def test_a_library_that_is_not_as_we_know_it_stays_as_it_is(module_of, answer):
    def fit(_):
        if answer is not None:
            raise answer

    user, name = User(), module_of("")
    libraries = Libraries({name: fit})
    libraries.enter(user)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert __import__(name)
    libraries.leave(user)
    told = (
        [] if answer is None else [f"{name} is not a version that this disco_magic knows: all workers share "]
    )
    assert [str(each.message)[: len(told[0])] for each in caught] == told


def test_who_is_warned_of_one_can_wait_for_a_thread_that_enters(module_of, monkeypatch):
    def fit(module):
        return module.what_is_not_there

    def show(*_):
        thread = threading.Thread(target=libraries.enter, args=[User()])
        thread.start()
        thread.join(20.0)
        ended.append(not thread.is_alive())

    user, name, ended = User(), module_of(""), []
    libraries = Libraries({name: fit})
    __import__(name)
    monkeypatch.setattr(warnings, "showwarning", show)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        libraries.enter(user)
    assert ended == [True]


def test_where_warnings_are_errors_a_session_starts_all_the_same(module_of):
    name = module_of("")
    libraries, user = Libraries({name: lambda module: module.what_is_not_there}), User()
    libraries.enter(user)
    assert __import__(name)
    libraries.leave(user)


class Owner:
    """Who wants libraries changed."""


def test_of_modules_that_are_there_the_first_one_is_changed_first_and_undone_last(monkeypatch):
    names = [f"there_{number}" for number in range(20)]
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    steps = []

    def fit(module):
        steps.append(module.__name__)
        return lambda: steps.append(f"not {module.__name__}")

    libraries, owner = Libraries(dict.fromkeys(names, fit)), Owner()
    libraries.enter(owner)
    libraries.leave(owner)
    assert steps == names + [f"not {name}" for name in reversed(names)]


def test_one_that_cannot_be_undone_keeps_none_of_the_others(monkeypatch):
    undone = []

    def undo(name):
        undone.append(name)
        if name == "there_1":
            raise ValueError(name)

    names = [f"there_{number}" for number in range(3)]
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    libraries, owner = (
        Libraries({name: lambda module: partial(undo, module.__name__) for name in names}),
        Owner(),
    )
    libraries.enter(owner)
    with pytest.raises(ValueError, match="there_1"):
        libraries.leave(owner)
    assert undone == ["there_2", "there_1", "there_0"]
    libraries.enter(owner)
    with pytest.raises(ValueError, match="there_1"):
        libraries.leave(owner)
    assert len(undone) == 6


def test_several_changes_of_a_module_do_not_need_each_other():
    undone = []

    def unknown(module):
        return module.what_is_not_there

    def known(number):
        return lambda _: lambda: undone.append(number)

    undo = each_of(known(1), unknown, lambda _: None, known(2))(ModuleType("there"))
    undo()
    assert undone == [2, 1]
