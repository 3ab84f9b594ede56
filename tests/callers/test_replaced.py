"""What a replaced function does with arguments that its replacement does not take."""

import inspect
from types import ModuleType

import pytest

from disco_magic.callers.replaced import Replaced, in_place_of


def module_with(function):
    module = ModuleType("of_others")
    vars(module)[function.__name__] = function
    return module


def test_an_error_of_wrong_arguments_names_the_function_that_was_called():
    """`call` passes all on, so Python found the mistake where it calls ours, one argument further."""

    def shown(number):
        return number

    @in_place_of("shown")
    def fit_shown(below, number):
        return below(number)

    module = module_with(shown)
    undo = fit_shown(module)
    with pytest.raises(TypeError, match=r"shown\(\) takes 1 positional argument but 2 were given") as caught:
        module.shown(1, 2)
    undo()
    assert "fit_shown" not in str(caught.value)
    assert caught.value.__context__ is None


def test_what_another_version_takes_as_well_reaches_the_function_that_was_called():
    def shown(number, *, twice=False):
        return number * 2 if twice else number

    @in_place_of("shown")
    def fit_shown(below, number):
        return below(number) + 100

    module = module_with(shown)
    undo = fit_shown(module)
    told = module.shown(1), module.shown(1, twice=True)
    undo()
    assert told == (101, 2)


def test_a_type_error_of_the_replacement_is_not_taken_for_one_of_its_arguments():
    called = []

    def shown(number):
        called.append(number)
        raise TypeError("no")

    @in_place_of("shown")
    def fit_shown(below, number):
        return below(number)

    module = module_with(shown)
    undo = fit_shown(module)
    with pytest.raises(TypeError, match="no"):
        module.shown(1)
    undo()
    assert called == [1]


def test_a_replaced_method_of_a_class_takes_what_it_took():
    """Made to look like the bound method, it seemed to take one argument less."""

    class Model:
        @classmethod
        def load(cls, name, *, strict=True):
            return cls, name, strict

    @in_place_of("load", within="Model")
    def fit_load(below, cls, *args, **options):
        return below(cls, *args, **options)

    module = ModuleType("of_others")
    module.Model, before = Model, inspect.signature(Model.load)
    undo = fit_load(module)
    found, loaded = inspect.signature(Model.load), Model.load("a", strict=False)
    undo()
    assert found == before
    assert loaded == (Model, "a", False)


class Asked:
    def ask(self):
        return "theirs"


def of_class(asked):
    return Replaced(asked, "ask", lambda: "ours")


def of_its_own(asked):
    asked.ask = lambda: "its own"
    return Replaced(asked, "ask", lambda: "ours")


@pytest.mark.parametrize("made", [of_class, of_its_own])
def test_a_replacement_can_be_put_again_where_nobody_has_replaced_anything_since(made):
    asked = Asked()
    replaced = made(asked)
    before = asked.ask()
    for _ in range(2):
        assert replaced.is_up_to_date
        replaced.put()
        assert replaced.is_up_to_date
        assert asked.ask() == "ours"
        replaced.take()
        assert asked.ask() == before


@pytest.mark.parametrize("made", [of_class, of_its_own])
@pytest.mark.parametrize("is_put", [False, True])
def test_it_is_out_of_date_where_somebody_has_replaced_the_method_since(made, is_put):
    asked = Asked()
    replaced = made(asked)
    if is_put:
        replaced.put()
    asked.ask = lambda: "another"
    assert not replaced.is_up_to_date
    del asked.ask
    assert replaced.is_up_to_date is (made is of_class and not is_put)


def test_it_is_out_of_date_where_the_method_of_the_class_is_another_one(monkeypatch):
    replaced = of_class(Asked())
    monkeypatch.setattr(Asked, "ask", lambda _: "another")
    assert not replaced.is_up_to_date
