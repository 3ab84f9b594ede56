"""Modules whose attributes depend on the caller."""

from __future__ import annotations

import types

import pytest

from disco_magic.callers.module_classes import ModuleOfWorkers, exchange


class Mine(ModuleOfWorkers):
    """`level` is not what the module's dictionary has."""

    level = property(lambda _: "the caller's")


@pytest.fixture
def module():
    found = types.ModuleType("settings")
    found.level = "the process's"
    return found


def test_code_that_has_run_often_finds_the_caller_s_and_later_the_process_s_again(module):
    # Python 3.14 specializes what loads an attribute of a module, also of a subclass, and then asks no class.
    def loaded():
        return {module.level for _ in range(100)}

    assert loaded() == {"the process's"}
    put_back = exchange(module, Mine)
    assert loaded() == {"the caller's"}
    put_back()
    assert loaded() == {"the process's"}


def test_what_a_module_lacks_is_reported_as_ever(module):
    exchange(module, Mine)
    with pytest.raises(AttributeError, match=r"^module 'settings' has no attribute 'levle'$") as caught:
        module.levle  # noqa: B018 - it raises
    assert (caught.value.name, caught.value.obj) == ("levle", module)
    assert caught.traceback[-1].name == "test_what_a_module_lacks_is_reported_as_ever"


def test_a_module_s_own_function_for_missing_attributes_is_asked(module):
    exchange(module, Mine)
    module.__getattr__ = str.upper
    assert module.levle == "LEVLE"
