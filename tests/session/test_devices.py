"""Devices in a session: as arguments, in registers, in results and tables, and as an option."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.core.device import Device, device
from disco_magic.errors import UsageMistake
from disco_magic.functions.cell_copies import ATOMS
from disco_magic.functions.copies import copy_of, is_shared
from disco_magic.values.describe import describe
from disco_magic.values.fingerprint import fingerprint
from tests.session.conftest import give, who

OWN = "from disco_magic.core.device import device\nd = device('cuda', worker_id)"
SAME = "from disco_magic.core.device import device\nd = device('cuda:1')"


def numbered(kind):
    return device(kind, who())


# --- as arguments ----------------------------------------------------------------------------------


def test_a_device_is_handed_over_as_itself():
    made = device("cuda:1")
    assert type(made) in ATOMS
    assert is_shared(made)
    assert copy_of(made) is made
    assert copy_of([made])[0] is made


def test_an_argument_reaches_every_worker_as_itself(session):
    made = device("cuda:1")
    ref = session(2).call_packed(give, made, 3, key=[made])
    for args, kwargs in ref.get_all():
        assert args[0] is made
        assert kwargs["key"][0] is made


# --- in registers ----------------------------------------------------------------------------------


def test_a_register_holds_each_workers_own_device(session):
    ref = session(2).call_packed(numbered, "cuda")
    assert ref.get_all() == [device("cuda:0"), device("cuda:1")]
    assert type(ref.get(1)) is Device


def test_a_register_can_be_set_and_put_to_a_device(session):
    s = session(2)
    ref = s.call_packed(who)
    ref.set(1, device("cuda:1"))
    assert ref.get_all() == [0, device("cuda:1")]
    s.put("where", device("metal"))
    assert s["where"].get_all() == [device("metal")] * 2


def test_a_device_in_a_register_is_an_argument_of_the_next_call(session):
    s = session(2)
    ref = s.call_packed(str, s.call_packed(numbered, "cuda"))
    assert ref.get_all() == ["cuda:0", "cuda:1"]


def test_the_table_shows_devices_and_which_differ(session):
    s = session(2)
    s.run(f"{SAME}\ne = device('cuda', worker_id)")
    picture = s.registers()
    same, own = picture.row("d"), picture.row("e")
    assert [(cell.type, cell.text) for cell in same.cells] == [("Device", "device('cuda:1')")] * 2
    assert [cell.text for cell in own.cells] == ["device('cuda:0')", "device('cuda:1')"]
    assert (same.compared, same.differs) == (True, False)
    assert (own.compared, own.differs) == (True, True)


def test_a_device_is_no_array_in_the_table():
    info = describe(device("cuda:1"))
    assert (info.shape, info.dtype, info.device, info.nbytes, info.sampled) == (None, None, None, 0, False)


# --- in results ------------------------------------------------------------------------------------


def test_equal_devices_of_a_cell_are_one_group(session):
    s = session(2)
    assert [workers for workers, _ in s.run(f"{SAME}\nd").groups()] == [(0, 1)]
    assert [workers for workers, _ in s.run(f"{OWN}\nd").groups()] == [(0,), (1,)]
    assert [workers for workers, _ in s.run(f"{SAME}\n[d, {{d: d}}]").groups()] == [(0, 1)]


def test_a_cells_value_is_shown_and_fetched(session):
    result = session(2).run(f"{SAME}\nd")
    assert result.values == [device("cuda:1")] * 2
    assert repr(result) == "[0-1] device('cuda:1')"


@pytest.mark.parametrize(
    "other", [device("cuda:0"), device("rocm:1"), "cuda:1", "device('cuda:1')", (2, 1)], ids=repr
)
def test_a_device_has_the_fingerprint_of_its_equals_alone(other):
    one = device("cuda:1")
    assert fingerprint(one) == fingerprint(device("gpu", 1))
    assert fingerprint(one) != fingerprint(other)
    assert describe(one).fingerprint == describe(device("gpu", 1)).fingerprint
    assert describe(one).fingerprint != describe(other).fingerprint


# --- as an option ----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [None, "cpu", "cpu:0", "llvm", device("cpu"), Device("cpu", 0)], ids=repr)
def test_empty_takes_the_workers_own_device_by_every_name(session, where):
    values = session(2).empty((2, 3), "float16", where).get_all()
    assert [(type(v), v.shape, v.dtype) for v in values] == [(np.ndarray, (2, 3), np.dtype("float16"))] * 2


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("cuda:0", "empty: device 'cuda:0' does not exist; workers without a GPU have 'cpu'"),
        ("gpu", "empty: device 'cuda:0' does not exist"),
        (device("cuda", 1), "empty: device 'cuda:1' does not exist"),
        ("cpu:1", "empty: device 'cpu:1' does not exist"),
        ("cudda", r"no kind of device 'cudda'; did you mean 'cuda'\?"),
        ("cpu:x", "the index is 'x'"),
        ("", "no kind of device ''"),
        (0, "got int, expected text like 'cuda:1' or a Device"),
    ],
    ids=repr,
)
def test_empty_refuses_another_device_before_anything_is_sent(session, where, text):
    s = session(2)
    before = (s.ledger.seq, s.ledger.live_registers)
    with pytest.raises(UsageMistake, match=text):
        s.empty((2,), device=where)
    assert (s.ledger.seq, s.ledger.live_registers) == before
