"""Which GPUs and which data plane a session gets, from what was asked for and what there is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from disco_magic.core.device import device
from disco_magic.devices import find
from disco_magic.errors import MissingDependency, PlaneUnavailable, UsageMistake
from disco_magic.session.equipment import Choice, choose


@pytest.fixture
def sees(monkeypatch):
    """Lets this process see so many GPUs; cupy must not be imported to find out what to do."""

    def see(count, *, nccl=True, hip=False):
        monkeypatch.setattr(find, "count_gpus", lambda: count)
        monkeypatch.setattr(find, "has_nccl", lambda: nccl)
        monkeypatch.setattr(find, "has_driver_files", lambda: count > 0)
        cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(is_hip=hip)))
        monkeypatch.setattr(find, "load_cupy", lambda: cupy)

    return see


@pytest.mark.parametrize(("workers", "made"), [(None, 4), (3, 3)])
def test_without_nccl_that_nobody_asked_for_all_share_the_first_gpu(workers, made, sees):
    sees(8, nccl=False)
    why = "NCCL is not installed; all workers share GPU 0"
    assert choose("auto", "auto", workers) == Choice(made, "device", (0,) * made, why)
    assert choose("nccl", "auto", 2) == Choice(2, "nccl", (0, 1))


def test_several_gpus_are_refused_where_cuda_waits_for_every_start(sees, monkeypatch):
    sees(2)
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    way = r"with CUDA_LAUNCH_BLOCKING set .* devices=\[0\] \* 2, ccl='device'"
    for asked in (("auto", [0, 1], None), ("nccl", None, 2)):
        with pytest.raises(PlaneUnavailable, match=way):
            choose(*asked)
    assert choose("device", [0] * 2, 2).plane_name == "device"
    why = "CUDA_LAUNCH_BLOCKING is set, with which NCCL cannot start; all workers share GPU 0"
    assert choose("auto", "auto", 2) == Choice(2, "device", (0, 0), why)
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "0")
    assert choose("auto", "auto", 2).plane_name == "nccl"


NOT_ASKED = "GPUs are used only if asked for: devices='auto'"


def no_cupy():
    raise MissingDependency("GPUs need cupy")


@pytest.mark.parametrize(
    ("ccl", "devices", "workers", "count", "expected"),
    [
        ("auto", None, 4, 0, Choice(4, "threads")),
        ("auto", None, 4, 8, Choice(4, "threads", why=NOT_ASKED)),
        ("threads", None, 4, 8, Choice(4, "threads")),
        ("threads", "cpu", 2, 8, Choice(2, "threads")),
        ("threads", "auto", 2, 8, Choice(2, "threads")),
        ("auto", "cpu", 3, 8, Choice(3, "threads")),
        ("auto", "auto", 4, 0, Choice(4, "threads", why="no GPU was found")),
        ("auto", "auto", None, 8, Choice(8, "nccl", tuple(range(8)), "one GPU per worker")),
        ("auto", "auto", 2, 8, Choice(2, "nccl", (0, 1), "one GPU per worker")),
        ("auto", "auto", 4, 1, Choice(4, "device", (0, 0, 0, 0), "the workers share one GPU")),
        ("auto", "auto", None, 1, Choice(1, "device", (0,), "one worker needs no NCCL")),
        ("auto", "0,0,0", None, 1, Choice(3, "device", (0, 0, 0), "the workers share one GPU")),
        ("auto", [3, 1], None, 4, Choice(2, "nccl", (3, 1), "one GPU per worker")),
        ("auto", (3, 1), 2, 4, Choice(2, "nccl", (3, 1), "one GPU per worker")),
        ("auto", "0-2", None, 4, Choice(3, "nccl", (0, 1, 2), "one GPU per worker")),
        ("auto", "3, 0-1", None, 4, Choice(3, "nccl", (3, 0, 1), "one GPU per worker")),
        ("auto", "cuda:[0-1,3]", None, 4, Choice(3, "nccl", (0, 1, 3), "one GPU per worker")),
        ("auto", "cuda:1-2", None, 4, Choice(2, "nccl", (1, 2), "one GPU per worker")),
        ("nccl", None, 2, 4, Choice(2, "nccl", (0, 1))),
        ("nccl", None, None, 4, Choice(4, "nccl", (0, 1, 2, 3))),
        ("nccl", "0", None, 1, Choice(1, "nccl", (0,))),
        ("device", None, 3, 4, Choice(3, "device", (0, 0, 0))),
        ("device", None, None, 4, Choice(4, "device", (0, 0, 0, 0))),
        ("device", "1,1", None, 2, Choice(2, "device", (1, 1))),
    ],
)
def test_the_choice(ccl, devices, workers, count, expected, sees):  # noqa: PLR0917 - a table
    sees(count)
    assert choose(ccl, devices, workers) == expected


@pytest.mark.parametrize(
    ("ccl", "devices", "workers", "count", "text"),
    [
        ("auto", None, None, 0, "^say how many workers"),
        ("auto", "auto", None, 0, "^no GPU was found; say how many workers"),
        ("threads", "0,1", None, 2, "ccl='threads' carries arrays on the CPU, but devices are '0,1'"),
        ("nccl", "cpu", 2, 2, "ccl='nccl' carries arrays on GPUs, but devices are 'cpu'"),
        ("device", device("cpu"), 2, 2, "ccl='device' carries arrays on GPUs, but devices are 'cpu'"),
        ("auto", "0,1", 3, 2, "2 devices for 3 workers; give one for each"),
        ("auto", "0,2", None, 2, "there is no GPU 2: this process sees 2, numbered from 0"),
        ("auto", "0,0,1,1", None, 2, "either all workers share one GPU, or each has one of its own"),
        ("nccl", "0,0", None, 2, "NCCL does not allow two workers on one GPU"),
        ("device", "0,1", None, 2, "ccl='device' is for workers on one GPU"),
        ("auto", "auto", 4, 2, r"4 workers cannot have a GPU each, this process sees 2 GPUs; ask for 2,"),
        ("nccl", None, 5, 1, r"this process sees 1 GPU; .* devices=\[0, 0, 0, 0, ...\]"),
        ("auto", "gpu", None, 2, r"devices are 'gpu', expected GPU numbers"),
        ("auto", "0,-1", None, 2, "expected GPU numbers"),
        ("auto", "1-0", None, 2, "devices are .1-0., expected GPU numbers"),
        ("auto", "0-9999", None, 2, "expected GPU numbers"),
        ("auto", "cuda:[0", None, 2, "expected"),
        ("auto", "", None, 2, "expected GPU numbers"),
        ("auto", [], None, 2, "expected GPU numbers"),
        ("auto", [0.5], None, 2, "expected GPU numbers"),
        ("auto", 0, None, 2, "expected GPU numbers"),
        ("device", None, 65, 1, "65 workers on one GPU are more than the 64"),
    ],
)
def test_what_does_not_go_together_is_refused(ccl, devices, workers, count, text, sees):  # noqa: PLR0917 - a table
    sees(count)
    with pytest.raises(UsageMistake, match=text):
        choose(ccl, devices, workers)


@pytest.mark.parametrize(
    "devices",
    ["cuda:0,cuda:1", ["cuda:0", "cuda:1"], (device("cuda:0"), device("cuda:1")), [0, "cuda:1"], ["0", 1]],
)
def test_gpus_have_names_too(devices, sees):
    sees(2)
    assert choose("auto", devices, None).devices == (0, 1)
    assert choose("device", device("cuda:1"), 1).devices == (1,)


def test_a_gpu_of_another_maker_is_not_the_one_of_that_number(sees):
    sees(2)
    with pytest.raises(
        UsageMistake, match="rocm:1: the GPUs that cupy finds here are called cuda:0 and so on"
    ):
        choose("auto", ["cuda:0", "rocm:1"], None)
    sees(2, hip=True)
    assert choose("auto", "rocm:0,rocm:1", None).devices == (0, 1)
    with pytest.raises(UsageMistake, match="are called rocm:0"):
        choose("auto", device("cuda:0"), 1)


@pytest.mark.parametrize("devices", ["cpu", device("cpu"), None])
def test_the_host_has_a_name_too(devices, sees):
    sees(2)
    assert choose("auto", devices, 3).devices == ()


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        (["cpu"], "expected GPU numbers"),
        ([device("metal:0")], "expected GPU numbers"),
        ("cuda:x", "the index is 'x'"),
        ("cude:0", "did you mean 'cuda'"),
    ],
)
def test_other_devices_are_refused(devices, text, sees):
    sees(2)
    with pytest.raises(UsageMistake, match=text):
        choose("auto", devices, None)


@pytest.mark.parametrize(
    ("ccl", "devices"), [("nccl", None), ("device", None), ("auto", "0"), ("nccl", "auto")]
)
def test_where_no_gpu_is_it_says_what_is_missing(ccl, devices, sees, monkeypatch):
    sees(0)
    monkeypatch.setattr(find, "load_cupy", no_cupy)
    with pytest.raises(MissingDependency, match="GPUs need cupy"):
        choose(ccl, devices, 1)
    monkeypatch.setattr(find, "load_cupy", lambda: None)  # cupy is there, and sees none
    with pytest.raises(PlaneUnavailable, match="no GPU is visible"):
        choose(ccl, devices, 1)
