"""Devices by name: text and DLPack's numbers there and back, and what is no device."""

from __future__ import annotations

import copy
import enum
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from disco_magic.core.device import ALIASES, TYPE_CODES, Device, device
from disco_magic.errors import UsageMistake

# dlpack.h, DLDeviceType: written out once more, for a slip in the module's own table would change devices.
DLPACK = {
    1: "cpu",
    2: "cuda",
    3: "cuda_host",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    9: "vpi",
    10: "rocm",
    11: "rocm_host",
    12: "ext_dev",
    13: "cuda_managed",
    14: "oneapi",
    15: "webgpu",
    16: "hexagon",
    17: "maia",
    18: "trn",
}
LARGEST = 2**31 - 1
every_type = pytest.mark.parametrize(("code", "kind"), DLPACK.items(), ids=DLPACK.values())
every_index = pytest.mark.parametrize("index", [0, 1, 17, LARGEST])


class TypeCode(enum.IntEnum):
    CUDA = 2


# --- there and back --------------------------------------------------------------------------------


def test_every_type_of_dlpack_has_a_name_and_no_other_has():
    assert {code: kind for kind, code in TYPE_CODES.items()} == DLPACK


@every_type
@every_index
def test_a_devices_text_is_read_back_as_the_device(code, kind, index):
    made = device(kind, index)
    assert (made.kind, made.index, made.type_code, made.type) == (kind, index, code, kind)
    assert device(str(made)) == made
    assert device(f"{kind}:{index}") == made
    assert Device(kind, index) == made


@every_type
@every_index
def test_a_repr_evaluates_to_the_device(code, kind, index):
    assert eval(repr(device(kind, index)), {"device": device}) == device(kind, index)  # noqa: S307 - our own text


@every_type
@every_index
def test_what_dlpack_says_of_an_array_is_its_device(code, kind, index):
    assert Device.from_dlpack((code, index)) == device(kind, index)


def test_the_device_of_a_numpy_array_is_the_cpu():
    assert Device.from_dlpack(np.zeros(2).__dlpack_device__()) == device("cpu")


def test_dlpack_numbers_may_be_enums_and_numpy_integers():
    made = Device.from_dlpack((TypeCode.CUDA, np.int64(1)))
    assert (repr(made), type(made.index)) == ("device('cuda:1')", int)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (device("cpu"), "cpu"),
        (device("cpu:0"), "cpu"),
        (device("cpu", 1), "cpu:1"),
        (device("cuda"), "cuda:0"),
        (device("cuda:1"), "cuda:1"),
        (device("cuda:01"), "cuda:1"),
        (device("cuda", 1), "cuda:1"),
        (device("cuda", np.int32(1)), "cuda:1"),
        (device(np.str_("cuda")), "cuda:0"),
        (device("cuda:1", 1), "cuda:1"),
        (device(device("cuda:1")), "cuda:1"),
        (device(device("cuda:1"), 1), "cuda:1"),
    ],
    ids=range(12),
)
def test_the_host_is_cpu_and_the_others_have_numbers(made, text):
    assert (str(made), repr(made), f"{made}") == (text, f"device('{text}')", text)


@pytest.mark.parametrize(("alias", "kind"), ALIASES.items())
def test_an_alias_is_another_name_of_a_kind(alias, kind):
    assert kind in TYPE_CODES
    assert alias not in TYPE_CODES
    assert device(alias) == device(kind)
    assert device(f"{alias}:3") == device(kind, 3)


def test_a_device_is_given_back_as_it_is():
    made = device("cuda:1")
    assert device(made) is made


# --- a value ---------------------------------------------------------------------------------------


def test_equal_devices_are_one_key():
    assert {device("cuda:1"), device("cuda", 1), Device("cuda", 1), device("gpu:1")} == {device("cuda:1")}


@pytest.mark.parametrize("other", [device("cuda:0"), device("rocm:1"), "cuda:1", (2, 1), None], ids=repr)
def test_another_kind_index_or_type_is_not_equal(other):
    assert device("cuda:1") != other


def test_devices_are_sorted_by_kind_then_number():
    names = ["cuda:10", "rocm:0", "cuda:2", "cpu"]
    assert sorted(map(device, names)) == [device("cpu"), device("cuda:2"), device("cuda:10"), device("rocm")]


def test_a_device_cannot_be_changed():
    made = device("cuda:1")
    with pytest.raises(FrozenInstanceError):
        made.index = 2
    with pytest.raises((FrozenInstanceError, TypeError, AttributeError)):
        made.other = 2
    assert made == device("cuda:1")
    assert not hasattr(made, "__dict__")


def test_a_copy_of_a_device_is_the_device():
    made = device("cuda:1")
    assert copy.copy(made) is made
    assert copy.deepcopy([made])[0] is made


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_device_comes_back_equal(protocol):
    assert pickle.loads(pickle.dumps(device("trn:2"), protocol)) == device("trn:2")  # noqa: S301 - our own bytes


# --- what is no device -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("cudda",), r"^device\('cudda'\): there is no kind of device 'cudda'; did you mean 'cuda'\?$"),
        (("cuda_hots:1",), r"'cuda_hots'; did you mean 'cuda_host'\?$"),
        (("CUDA:1",), r"no kind of device 'CUDA'; did you mean 'cuda'\?$"),
        (("GPU",), r"no kind of device 'GPU'; did you mean 'cuda'\?$"),
        ((" cuda:1",), r"no kind of device ' cuda'; did you mean 'cuda'\?$"),
        (("",), "no kind of device ''; expected one of cpu, cuda, cuda_host, opencl, .*, trn$"),
        ((":1",), "no kind of device ''; expected one of cpu"),
        (("quantum",), "no kind of device 'quantum'; expected one of cpu"),
        (("cuda:",), r"the index is '', expected a whole number from 0; did you mean 'cuda:0'\?"),
        (("cuda:x",), "the index is 'x', expected a whole number"),
        (("cuda:-1",), "the index is '-1', expected a whole number"),
        (("cuda:+1",), r"the index is '\+1', expected a whole number"),
        (("cuda: 1",), "the index is ' 1', expected a whole number"),
        (("cuda:1_0",), "the index is '1_0', expected a whole number"),
        (("cuda:\u00b2",), "the index is '\u00b2', expected a whole number"),
        (("cuda:\u0661",), "the index is '\u0661', expected a whole number"),
        (("cpu:0:1",), r"the index is '0:1', expected a whole number from 0; did you mean 'cpu:0'\?"),
        (("gpu:x",), r"did you mean 'cuda:0'\?"),
        (("cuda:2147483648",), "the index is 2147483648, expected a whole number from 0 to 2147483647"),
        (("cuda:" + "9" * 5000,), f"the index has 5000 digits, expected at most {LARGEST}"),
        (("cuda", -1), r"^device\('cuda', -1\): the index is -1, expected a whole number from 0"),
        (("cuda", LARGEST + 1), f"the index is {LARGEST + 1}, expected"),
        (("cuda", "1"), "the index is '1', expected a whole number"),
        (("cuda", 1.0), "the index is 1.0, expected a whole number"),
        (("cuda", True), "the index is True, expected a whole number"),
        (("cuda:1", 0), r"^device\('cuda:1', 0\): the name says index 1 already; leave one of the two out"),
        (("cuda:1", -1), "the index is -1, expected a whole number"),
        ((device("cuda:1"), 2), r"^device\(device\('cuda:1'\), 2\): the name says index 1 already"),
        ((3,), r"^device\(3\): got int, expected text like 'cuda:1' or a Device; .* Device.from_dlpack"),
        ((None,), "got NoneType, expected text"),
        (((2, 0),), "got tuple, expected text"),
        ((b"cuda",), "got bytes, expected text"),
    ],
    ids=repr,
)
def test_what_is_no_device_is_refused_with_what_it_could_be(arguments, text):
    with pytest.raises(UsageMistake, match=text):
        device(*arguments)


@pytest.mark.parametrize(
    ("pair", "text"),
    [
        ((5, 0), "DLPack has no device type 5; the types are 1 cpu, 2 cuda, .*, 18 trn$"),
        ((0, 0), "DLPack has no device type 0"),
        ((-1, 0), "DLPack has no device type -1"),
        ((2, -1), "the index is -1, expected a whole number"),
        ((2, True), "the index is True, expected a whole number"),
        ((2, None), "the index is None, expected a whole number"),
        (("cuda", 0), r"expected \(type code, index\), what __dlpack_device__\(\) of an array returns"),
        ((2,), r"expected \(type code, index\)"),
        ((2, 0, 0), r"expected \(type code, index\)"),
        (2, r"expected \(type code, index\)"),
        (None, r"expected \(type code, index\)"),
    ],
    ids=repr,
)
def test_what_dlpack_does_not_know_is_refused(pair, text):
    with pytest.raises(UsageMistake, match=text) as caught:
        Device.from_dlpack(pair)
    assert str(caught.value).startswith(f"Device.from_dlpack({pair!r}): ")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("gpu",), r"^Device\('gpu', 0\): there is no kind of device 'gpu'; did you mean 'cuda'\?$"),
        (("cuda:1",), r"no kind of device 'cuda:1'; did you mean 'cuda'"),
        ((2,), "no kind of device 2; expected one of cpu"),
        (([],), r"no kind of device \[\]; expected one of cpu"),
        (("cuda", -1), r"^Device\('cuda', -1\): the index is -1"),
    ],
    ids=repr,
)
def test_a_device_cannot_be_made_wrong(arguments, text):
    with pytest.raises(UsageMistake, match=text):
        Device(*arguments)
