"""Global functions by name."""

from __future__ import annotations

import functools
import sys
from types import ModuleType

import pytest

import disco_magic as disco
from disco_magic.errors import UnknownName, UsageMistake
from disco_magic.functions import registry, tvm_modules
from disco_magic.functions.registry import find_func, list_funcs, register_func, remove_func


@pytest.fixture(autouse=True)
def names():
    """Takes away what a test registered."""
    before = set(list_funcs())
    yield
    for name in set(list_funcs()) - before:
        remove_func(name)


def test_a_decorated_function_is_found_and_stays_what_it_was():
    @register_func("test.scale")
    def scale(x):
        return x * 2

    assert scale(2) == 4
    assert find_func("test.scale") is scale


def test_a_function_can_be_given_as_second_argument():
    assert register_func("test.len", len) is len
    assert find_func("test.len") is len


def test_a_name_taken_by_another_function_is_refused_and_kept():
    register_func("test.f", len)
    with pytest.raises(UsageMistake, match=r"'test.f' is registered already \(builtins.len\)"):
        register_func("test.f", max)
    assert find_func("test.f") is len


def test_a_name_is_replaced_on_request():
    register_func("test.f", len)
    register_func("test.f", max, override=True)
    assert find_func("test.f") is max


def test_the_same_function_defined_again_replaces_the_old_one():
    def define():
        def f():
            return None

        return f

    register_func("test.f", define())
    again = define()
    assert register_func("test.f")(again) is again
    assert find_func("test.f") is again


def test_an_object_without_a_name_is_told_by_its_class():
    class Scale:
        def __call__(self):
            return None

    register_func("test.f", Scale())
    with pytest.raises(UsageMistake, match="Scale"):
        register_func("test.f", len)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(UsageMistake, match=r"register_func\('test.f'\) got int, expected a callable"):
        register_func("test.f", 5)


def test_an_unknown_name_mentions_near_misses():
    register_func("test.scale", len)
    with pytest.raises(
        UnknownName, match=r"no function is registered as 'test.scal'; did you mean 'test.scale'"
    ):
        find_func("test.scal")


def test_a_name_unlike_any_other_points_to_the_list():
    with pytest.raises(UnknownName, match=r"see disco_magic.list_funcs\(\)"):
        find_func("zzzzqqqq")


def test_the_name_of_a_function_in_a_module_is_not_its_name_here():
    with pytest.raises(UnknownName, match=r"pass the function itself, os.path.join, without quotation marks"):
        find_func("os.path.join")


def test_a_package_that_imports_what_it_is_asked_for_is_not_asked(monkeypatch):
    def imported(name):
        raise ImportError(f"{name} needs what is not installed")

    package = ModuleType("lazy_of")
    package.__getattr__ = imported
    monkeypatch.setitem(sys.modules, "lazy_of", package)
    with pytest.raises(UnknownName, match=r"'lazy_of.model'; see disco_magic.list_funcs\(\)"):
        find_func("lazy_of.model")


def test_names_are_listed_by_prefix_sorted():
    register_func("test.b", len)
    register_func("test.a", len)
    assert list_funcs("test.") == ["test.a", "test.b"]


def test_a_removed_function_is_unknown():
    register_func("test.f", len)
    remove_func("test.f")
    with pytest.raises(UnknownName):
        remove_func("test.f")


def test_the_package_offers_them_by_their_public_names():
    assert disco.register_func is register_func
    assert disco.list_funcs is list_funcs
    assert disco.remove_func is remove_func


def test_a_tvm_that_cannot_be_imported_is_named_as_the_reason(monkeypatch):
    def broken():
        raise ImportError("libtvm_ffi.so: cannot open shared object file")

    monkeypatch.setattr(registry, "has_package", lambda name: True)
    monkeypatch.setattr(tvm_modules, "ffi_module", broken)
    monkeypatch.delitem(sys.modules, "tvm_ffi", raising=False)
    with pytest.raises(UnknownName, match=r"no function is registered as 'test.nothing'") as caught:
        find_func("test.nothing")
    assert "cannot open shared object file" in str(caught.value.__cause__)


def test_without_a_name_a_function_is_known_by_its_own():
    @register_func
    def test_triple(x):
        return x * 3

    assert test_triple(2) == 6
    assert find_func("test_triple") is test_triple


@pytest.mark.parametrize("given", [(3,), ("",), ("", len), (len, "f"), (functools.partial(len),)], ids=str)
def test_what_is_no_name_is_refused(given):
    before = list_funcs()
    with pytest.raises(UsageMistake, match="register_func"):
        register_func(*given)
    assert list_funcs() == before
