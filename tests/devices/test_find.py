"""Which GPUs there are, told without importing cupy where that can be avoided."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from disco_magic.devices import find
from disco_magic.errors import MissingDependency, PlaneUnavailable
from disco_magic.functions import installed


class NoDriver(RuntimeError):
    """What cupy raises where there is none."""


def a_cupy(count=2, error=None, nccl=None):
    def devices():
        if error is not None:
            raise error
        return count

    runtime = SimpleNamespace(getDeviceCount=devices, CUDARuntimeError=NoDriver)
    cuda = SimpleNamespace(runtime=runtime, **({} if nccl is None else {"nccl": nccl}))
    return SimpleNamespace(cuda=cuda, __version__="14.2.0")


@pytest.fixture
def machine(monkeypatch):
    """A machine with so many GPUs, and with a cupy, none, or one that cannot be imported."""

    def make(gpus, cupy):
        monkeypatch.setattr(installed, "visible_gpus", lambda: gpus)
        monkeypatch.setattr(installed, "has_package", lambda name: cupy is not None)
        monkeypatch.setattr(installed, "nvidia_driver", lambda: 580 if gpus else None)
        monkeypatch.setattr(find, "_OTHER_DRIVERS", ())
        monkeypatch.setattr(find, "has_driver_files", lambda: gpus > 0)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setitem(sys.modules, "cupy", cupy)

    return make


def test_cupy_that_is_not_there_is_named_with_what_installs_it(machine):
    machine(1, None)
    with pytest.raises(MissingDependency, match=r"GPUs need cupy.*pip install \"disco-magic\[cuda1[23]\]\""):
        find.load_cupy()


def test_cupy_without_a_driver_says_so_in_cuda_s_words(machine):
    machine(1, a_cupy(error=NoDriver("driver is insufficient")))
    with pytest.raises(PlaneUnavailable, match=r"cupy 14\.2\.0 finds no GPU .* driver is insufficient"):
        find.load_cupy()
    assert find.count_gpus() == 0


def test_where_no_driver_is_at_all_it_is_not_called_too_old(machine):
    machine(0, a_cupy(error=NoDriver("driver is insufficient")))
    with pytest.raises(
        PlaneUnavailable, match="no driver of a GPU is loaded on this machine; disco"
    ) as caught:
        find.load_cupy()
    assert "insufficient" not in str(caught.value)


def test_who_has_hidden_the_gpus_is_told_so(machine, monkeypatch):
    machine(1, a_cupy(error=NoDriver("no device is detected")))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(PlaneUnavailable, match=r"no device is detected \(CUDA_VISIBLE_DEVICES is ''\)"):
        find.load_cupy()


def test_gpus_are_counted_by_cupy(machine):
    machine(3, a_cupy(2))
    assert find.count_gpus() == 2


@pytest.mark.parametrize(("gpus", "there"), [(0, True), (2, False)])
def test_where_a_driver_or_cupy_is_missing_nothing_is_imported(machine, monkeypatch, gpus, there):
    machine(gpus, a_cupy() if there else None)
    monkeypatch.setattr(find, "load_cupy", lambda: pytest.fail("it was imported"))
    assert find.count_gpus() == 0


def test_drivers_of_other_makers_are_looked_for_too(machine, monkeypatch, tmp_path):
    machine(0, a_cupy(1))
    (tmp_path / "kfd").touch()
    monkeypatch.setattr(find, "_OTHER_DRIVERS", (str(tmp_path / "kfd"),))
    assert find.count_gpus() == 1


@pytest.mark.parametrize(
    ("nccl", "expected"),
    [(None, False), (SimpleNamespace(available=False), False), (SimpleNamespace(available=True), True)],
)
@pytest.mark.parametrize("imported", [True, False])
def test_nccl_is_there_if_cupy_can_load_it(machine, monkeypatch, nccl, expected, imported):
    """As an attribute, or as cupy 14 has it: as a module that nobody has imported yet."""
    machine(1, a_cupy(nccl=nccl if imported else None))
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", None if imported else nccl)
    assert find.has_nccl() is expected


def test_a_simulated_gpu_does_not_get_the_nccl_of_the_machine(machine, monkeypatch):
    machine(1, a_cupy())
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", SimpleNamespace(available=True))
    assert find.nccl_of(a_cupy()) is None
