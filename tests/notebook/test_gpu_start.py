"""`%disco start` on a machine with GPUs, simulated ones."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError, MissingDependency, UsageMistake
from disco_magic.session.current import session
from disco_magic.testing.gpu import SimulatedGpus
from tests.gpus import found


@pytest.fixture(scope="module")
def machine():
    with SimulatedGpus(count=2) as made:
        yield made


@pytest.fixture
def sees(machine, monkeypatch):
    def see(count):
        found(monkeypatch, machine, count)
        monkeypatch.setenv("DISCO_DEVICES", "auto")

    return see


def test_workers_on_the_only_gpu_share_it_and_the_line_says_why(shell, sees):
    sees(1)
    shell.run("%config DiscoMagics.devices = 'auto'")
    shell.run("%disco start -n 3")
    assert "3 workers · threads · cuda:0 · plane device (the workers share one GPU)" in shell.out
    shell.run("%%disco\nx = xp.full(2, worker_id)\nallreduce(x)")
    assert shell.lines[-1] == "[0-2] array([3, 3])"


def test_devices_may_be_named(shell, sees):
    sees(2)
    shell.run("%disco start --devices 1,1,1,1 --groups 2")
    assert "4 workers in 2 groups · threads · cuda:1 · plane device" in shell.out


@pytest.mark.parametrize(
    ("devices", "started"),
    [
        ("1,1", "2 workers · threads · cuda:1"),
        ("0,0,0,0", "4 workers · mesh dp=2 tp=2"),
        ("auto", "4 workers · mesh dp=2 tp=2"),
    ],
)
def test_devices_on_a_line_outweigh_a_mesh_that_is_configured(shell, sees, devices, started):
    sees(4)
    shell.run("%config DiscoMagics.mesh = 'dp=2,tp=2'")
    shell.run(f"%disco start --devices {devices}")
    assert started in shell.out


def test_the_cpu_may_be_chosen_and_is_what_ccl_threads_means(shell, sees):
    sees(2)
    shell.run("%disco start -n 2 --devices cpu")
    assert "2 workers · threads · cpu · plane threads" in shell.out
    shell.run("%disco stop")
    shell.run("%disco start --ccl threads")
    assert "4 workers · threads · cpu" in shell.out


@pytest.mark.parametrize(
    ("setting", "line", "started"),
    [
        ("ccl = 'nccl'", "-n 2 --devices cpu", "2 workers · threads · cpu · plane threads"),
        ("ccl = 'device'", "--devices cpu", "4 workers · threads · cpu · plane threads"),
        ("ccl = 'threads'", "--devices 1,1", "2 workers · threads · cuda:1 · plane device"),
        ("devices = 'cpu'", "-n 3 --ccl device", "3 workers · threads · cuda:0 · plane device"),
        ("devices = '0,0'", "--ccl threads", "4 workers · threads · cpu · plane threads"),
    ],
)
def test_the_line_outweighs_a_setting_that_it_contradicts(shell, sees, setting, line, started):
    sees(2)
    shell.run(f"%config DiscoMagics.{setting}")
    shell.run(f"%disco start {line}")
    assert started in shell.out


def test_a_line_that_contradicts_itself_starts_nothing(shell, sees):
    sees(2)
    error = shell.fail("%disco start --devices cpu --ccl device", UsageMistake)
    assert "ccl='device' carries arrays on GPUs, but devices are 'cpu'" in str(error)
    assert "no session is running" in str(shell.fail("%disco registers", UsageMistake))


@pytest.mark.parametrize(
    "options", ["--devices cpu", "--devices 0,0", "--devices 1", "--ccl threads", "--ccl nccl"]
)
def test_other_devices_than_those_of_the_session_that_runs_are_refused(shell, sees, options):
    sees(2)
    shell.run("%disco start --devices 1,1")
    error = shell.fail(f"%disco start {options}", UsageMistake)
    assert f"is running already, with its registers; for {options} end it first, with %disco stop" in str(
        error
    )


@pytest.mark.parametrize("options", ["--devices 1,1", "--devices cuda:1,cuda:1", "--devices auto"])
def test_devices_that_the_session_has_start_no_other(shell, sees, options):
    sees(2)
    shell.run("%disco start --devices 1,1 --ccl device")
    shell.run(f"%disco start {options} --ccl device")
    assert "is running already" in shell.out


def test_gpus_beside_a_session_on_the_cpu_are_refused(shell, sees):
    sees(2)
    shell.run("%disco start --devices cpu")
    shell.run("%disco start --devices cpu --ccl threads")
    for options in ("--devices 0,0", "--ccl device"):
        error = shell.fail(f"%disco start {options}", UsageMistake)
        assert f"for {options} end it first" in str(error)


def test_one_gpu_gives_one_worker_unless_told_otherwise(shell, sees):
    sees(1)
    shell.run("%config DiscoMagics.devices = 'auto'")
    shell.run("%disco start")
    assert "1 worker · threads · cuda:0 · plane device (one worker needs no NCCL)" in shell.out
    shell.run("%disco stop")
    shell.run("%config DiscoMagics.workers = 3")
    shell.run("%disco start")
    assert "3 workers · threads · cuda:0" in shell.out


def test_without_a_gpu_nothing_changes(shell, sees):
    sees(0)
    shell.run("%config DiscoMagics.devices = 'auto'")
    shell.run("%disco start")
    assert "4 workers · threads · cpu · plane threads" in shell.out


def test_nccl_that_is_not_there_names_the_extra_and_starts_nothing(shell, sees):
    sees(2)
    error = shell.fail("%disco start --ccl nccl", MissingDependency)
    assert 'pip install "disco-magic[cuda13]"' in str(error)
    assert "no session is running" in str(shell.fail("%disco registers", UsageMistake))


def test_variables_cross_the_border_to_the_gpu_and_back(shell, sees):
    sees(1)
    shell.run("%disco start --devices 0,0")
    shell.run("import numpy as np\na, b = np.arange(4.0), np.ones((2, 3))")
    shell.run("%disco scatter a\n%disco broadcast b")
    shell.run("%%disco\nc = a * 2 + b.sum()\nassert type(a) is type(b) is xp.ndarray")
    shell.run("%disco gather c\nprint(type(c).__module__, c)")
    assert shell.lines[-1] == "numpy [ 6.  8. 10. 12.]"
    shell.run("%%disco --push a --pull d\nd = xp.asarray(a).sum()")
    shell.run("print(float(d))")
    assert shell.lines[-1] == "6.0"


def test_a_mistake_names_the_device_in_the_table(shell, sees):
    sees(1)
    shell.run("%disco start --devices 0,0")
    error = shell.fail("%%disco\nallreduce(xp.ones(2) if worker_id else np.ones(2))", CellError)
    assert "[0] allreduce(float64 (2,), op=sum)" in str(error)
    assert "[1] allreduce(float64 (2,) on cuda:0, op=sum)" in str(error)
    assert session().run("1").values[0] == 1
