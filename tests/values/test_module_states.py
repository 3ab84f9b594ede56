"""Modules of PyTorch that write their own part of their ``state_dict()``, on stand-ins for their classes."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

import numpy as np
import pytest

from disco_magic.values.alike import digest_of_result
from disco_magic.values.divergence import survey
from tests.values import values

UNTOUCHED = {"_state_dict_hooks": OrderedDict(), "_state_dict_pre_hooks": OrderedDict()}


def net():
    made = values.net()
    for each in made._modules.values():
        each._parameters = {"weight": np.ones(3)}
    return made


def fail(*_):
    raise AssertionError("a user's code ran")


def of_torch(home="torch.distributed.fsdp"):
    def hook(*_):
        fail()

    hook.__module__ = home
    return hook


def derived(home=__name__, **methods):
    """A module whose class has other methods than PyTorch's own; its first part has the weights."""
    made = net()
    kind = type("Net", (type(made),), {"__module__": home, **methods})
    made._modules["0"].__class__ = kind
    return made


def hooked(place, hook):
    made = net()
    vars(made._modules["0"]).update({**UNTOUCHED, place: OrderedDict({7: hook})})
    return made


def opaque(module):
    return {path: held.opaque for path, held in survey("net", module, values=True) if held.opaque}


@pytest.mark.parametrize(
    "module",
    [
        derived(_save_to_state_dict=fail),
        derived(state_dict=fail),
        derived("torch.ao.nn.quantized", state_dict=of_torch("torch.ao.nn.quantized")),
        hooked("_state_dict_hooks", fail),
        hooked("_state_dict_hooks", partial(fail, 1)),
        hooked("_state_dict_hooks", of_torch("torch.ao.quantization")),
        hooked("_state_dict_pre_hooks", fail),
    ],
    ids=range(7),
)
def test_what_a_module_or_a_hook_writes_to_its_state_is_not_said_to_be_equal(module):
    why = "the module's own code writes it, and is not called; compare what that returns"
    assert opaque(module) == {"net.0.state_dict()": why}


def test_a_function_in_the_place_of_a_method_counts_too():
    module = net()
    module.state_dict = fail
    assert list(opaque(module)) == ["net.state_dict()"]


@pytest.mark.parametrize(
    "module",
    [
        derived(forward=fail),
        derived(_save_to_state_dict=of_torch("torch.nn.modules.lazy")),
        hooked("_state_dict_hooks", of_torch()),
        hooked("_state_dict_hooks", partial(of_torch("torch"))),
        hooked("_state_dict_pre_hooks", of_torch()),
    ],
    ids=["other methods", "lazy", "hook", "partial", "before"],
)
def test_what_pytorch_itself_does_when_it_writes_a_state_hides_nothing(module):
    assert opaque(module) == {}


class Module:
    """With a part that is in no parameter."""

    __module__ = "torch.nn.modules.module"


class Packed(Module):
    _save_to_state_dict = fail

    def __init__(self, value, number):
        self._parameters, self._buffers, self._modules = {}, {}, {}
        self.packed = np.full(3, value)
        self._state_dict_hooks = OrderedDict({number: print})

    def __repr__(self):
        return "Packed()"


def test_results_of_such_modules_are_shown_as_one_if_all_that_they_hold_is_equal():
    # The numbers of hooks count over all modules of the process.
    one, equal, other = (digest_of_result(Packed(*each), None) for each in ((1, 7), (1, 8), (2, 7)))
    assert one == equal != other
