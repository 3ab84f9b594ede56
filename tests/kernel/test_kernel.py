"""The kernel "Disco (SPMD)", as a front end talks to it."""

from __future__ import annotations

import inspect
import os
import time

import pytest

from tests.kernels import Kernel

pytestmark = pytest.mark.unmeasured  # what is tested runs in kernels, which are not measured
LIMIT_S = 20  # "at once" would be a second; this machine may be busy


def workers_lines(ran):
    return sorted(ran.lines)


def interrupted(kernel, code, sign="started"):
    """A cell that is interrupted as soon as all its workers, or the cell itself, have printed `sign`."""
    cell = kernel.send(code)
    before = kernel.until_text(cell, sign, times=1 if "%%local" in code else 4)
    began = time.monotonic()
    kernel.interrupt()
    ran = kernel.finish(cell, before)
    assert time.monotonic() - began < LIMIT_S
    assert ran.status == "error"
    return ran


def test_the_first_cell_starts_the_workers_and_runs_on_them(place):
    kernel = Kernel("disco", ["--workers=3"])
    try:
        ran = kernel.ok("x = worker_id\nprint('mine', x)\nx < num_workers")
        assert ran.displays[0]["data"]["text/plain"].startswith("Disco session 1: 3 workers")
        assert workers_lines(ran) == ["[0] mine 0", "[1] mine 1", "[2] mine 2"]
        assert ran.value == "[0-2] True"
    finally:
        kernel.close()


def test_it_says_what_it_is(disco):
    disco.client.kernel_info()
    info = disco.client.get_shell_msg(timeout=LIMIT_S)["content"]
    assert info["implementation"] == "disco"
    assert info["language_info"]["name"] == "python"
    assert info["language_info"]["file_extension"] == ".py"
    assert "%%local" in info["banner"]


def test_local_cells_run_in_the_kernel(fresh):
    fresh.ok("x = worker_id")
    assert fresh.ok("%%local\nimport os\nhere = 40\nhere + 2").value == "42"
    assert "NameError" in fresh.run("here").traceback
    assert "NameError" in fresh.run("%%local\nx").traceback


def test_the_counter_history_and_out_are_those_of_ipython(fresh):
    first = fresh.ok("worker_id * 0")
    number = first.messages[-2]["content"]["execution_count"] if first.value else None
    assert fresh.ok(f"%%local\nOut[{number}][3]").value == "0"
    shown = fresh.ok(f"%history -n {number}-{number + 1}").text()
    assert "worker_id * 0" in shown
    assert "run_on_workers" not in shown
    assert fresh.ok(f"%%local\nIn[{number}]").value == "'worker_id * 0'"
    fresh.ok("%%disco -w 2\nworker_id")
    sent = "get_ipython().run_cell_magic('disco', '-w 2', 'worker_id\\n')"
    assert fresh.ok("%%local\nIn[-2]").value == repr(sent)
    fresh.ok(f"%macro -q again {number}")
    assert fresh.ok("again").value == "[0-3] 0"


def test_cells_that_say_disco_are_as_in_any_kernel(fresh):
    assert fresh.ok("%%disco -w 2\nworker_id").value == "[2] 2"
    assert "-w WORKERS" in fresh.ok("%%disco -h\n").text()
    assert "unrecognized arguments: --bogus" in fresh.run("%%disco --bogus\n1").text("stderr")
    failed = fresh.run("%%disco -o kept\n3 if worker_id else 1 / 0")
    assert "----> 2 3 if worker_id else 1 / 0" in failed.traceback
    assert "run_on_workers" not in failed.traceback
    assert fresh.ok("%%local\nkept").value.startswith("[1-3] 3")
    assert (
        fresh.run("%%disco --check values\ny = worker.replicated(worker_id)").error["ename"] == "Divergence"
    )
    fresh.ok("%%disco --nowait -o handle\nworker_id // 4")
    assert fresh.ok("%%local\nawait handle").value == "[0-3] 0"
    assert "body is empty" in fresh.run("%%disco").text("stderr")


def test_without_autoawait_cells_run_all_the_same(fresh):
    fresh.ok("%autoawait off")
    try:
        assert fresh.ok("worker_id // 4").value == "[0-3] 0"
        assert fresh.ok("%%disco -w 1\nworker_id").value == "[1] 1"
    finally:
        fresh.ok("%autoawait on")


def test_values_go_where_they_are_asked_for(fresh):
    fresh.ok("x = worker_id + 5")
    fresh.ok("%disco get x")
    assert fresh.ok("%%local\nx").value == "5"
    assert fresh.ok("worker_id;").value is None


def test_errors_have_the_lines_of_the_cell_and_reach_the_front_end(fresh):
    ran = fresh.run("a = 1\n\nif worker_id == 2:\n    1 / 0\nbarrier()")
    assert (ran.status, ran.error["ename"]) == ("error", "CellError")
    assert "----> 4     1 / 0" in ran.traceback
    assert "run_on_workers" not in ran.traceback
    assert "[0-1,3] PlaneAborted: worker 2 failed" in ran.traceback
    assert fresh.ok("a").value == "[0-3] 1"


def test_syntax_errors_are_shown_as_pythons(fresh):
    ran = fresh.run("a = 1\ndef f(:\n    pass")
    assert ran.error["ename"] == "SyntaxError"
    assert "line 2" in ran.traceback
    assert "NameError" in fresh.run("a").traceback


def test_a_cell_that_ipython_cannot_read_is_answered_too(fresh):
    ran = fresh.run("for i in range(2):\n    print(i)\n  x")
    assert ran.error["ename"] in {"IndentationError", "SyntaxError"}
    assert fresh.ok("worker_id // 4").value == "[0-3] 0"


def test_a_value_that_cannot_be_shown_is_an_error_of_its_own_cell_alone(fresh):
    shown = fresh.run("%%local\nclass Odd:\n    def __repr__(self): return 1 / 0\nOdd()")
    assert shown.status == "error"
    assert [fresh.ok(cell).value for cell in ("allreduce(1)", "%%disco\n5")] == ["[0-3] 4", "[0-3] 5"]


def test_the_stop_button_while_a_value_is_shown_ends_that_cell_alone(fresh):
    fresh.ok("%%local\nclass Slow:\n    def __repr__(self):\n        print('begun')\n        while 1: pass")
    cell = fresh.send("%%local\nSlow()")
    before = fresh.until_text(cell, "begun")
    fresh.interrupt()
    fresh.finish(cell, before)
    assert fresh.ok("allreduce(1)").value == "[0-3] 4"


def test_a_mistake_has_no_traceback_of_an_earlier_error(fresh):
    assert "division by zero" in fresh.run("1 / 0").traceback
    assert "division by zero" not in fresh.run("%%disco --timeout 0\n1").traceback


def test_magics_above_a_cell_apply_to_the_workers_work(fresh):
    ran = fresh.ok("%%time\nx = worker_id\nx")
    assert "Wall time" in ran.text()
    assert ran.value == "[0] 0\n[1] 1\n[2] 2\n[3] 3"


def test_await_works_in_both_kinds_of_cells(fresh):
    assert fresh.ok("import asyncio\nawait asyncio.sleep(0)\nworker_id // 4").value == "[0-3] 0"
    assert fresh.ok("%%local\nimport asyncio\nawait asyncio.sleep(0, 7)").value == "7"


def make_gate(kernel, then=""):
    """A gate that cells of the workers import from `gates`; the kernel goes on with `then`."""
    kernel.ok(
        "%%local\nimport asyncio, sys, threading, types\n"
        f"sys.modules['gates'] = types.SimpleNamespace(gate=threading.Event())\n{then}"
    )


def test_the_event_loop_goes_on_while_the_workers_compute(fresh):
    # The gate opens only if the loop of the kernel runs beside the cell.
    make_gate(fresh, "asyncio.get_running_loop().call_later(0.2, sys.modules['gates'].gate.set);")
    assert fresh.ok("import gates\ngates.gate.wait(20)").value == "[0-3] True"


@pytest.mark.parametrize(
    "code",
    [
        "print('started')\nwhile True:\n    pass",
        "print('started')\nif worker_id:\n    barrier()\nwhile True:\n    pass",
        "import asyncio\nprint('started')\nawait asyncio.sleep(600)",
        "import time\nprint('started')\ntime.sleep(600)",
        "%%local\nimport asyncio\nprint('started')\nawait asyncio.sleep(600)",
        "%%local\nimport time\nprint('started')\ntime.sleep(600)",
    ],
    ids=["computing", "collective", "awaiting", "sleeping", "local awaiting", "local sleeping"],
)
def test_the_stop_button_ends_a_cell_in_every_state(fresh, code):
    fresh.ok("kept = worker_id")
    ran = interrupted(fresh, code)
    assert ran.error["ename"] in ("KeyboardInterrupt", "CancelledError"), ran.traceback
    assert fresh.ok("kept").value == "[0] 0\n[1] 1\n[2] 2\n[3] 3"


TASK = """%%local
import asyncio
async def other():
    await asyncio.sleep(0)
    return await get_ipython().run_on_workers({code!r})
task = asyncio.ensure_future(other())
"""


def test_the_stop_button_ends_a_cell_that_a_task_waits_for_and_not_the_kernel(fresh):
    # asyncio raises a KeyboardInterrupt of a task out of the event loop, which ended the kernel.
    cell = fresh.send(TASK.format(code="print('started')\nwhile True:\n    pass"))
    fresh.until_text(cell, "started", times=4)
    fresh.interrupt()
    assert fresh.ok("worker_id * 0").value == "[0-3] 0"
    assert fresh.ok("%%local\ntask.done()").value == "True"


def test_the_stop_button_is_heard_when_the_wait_of_a_task_ends_before_that_of_the_cell(fresh):
    # The first to end put back what had heard the signal before both.
    make_gate(fresh)
    # Nobody opens the gate. The cell is behind the task on the workers, and is waited for longer than it.
    fresh.ok(TASK.format(code="import gates\ngates.gate.wait(2)"))
    ran = interrupted(fresh, "print('started')\nwhile True:\n    pass")
    assert ran.error["ename"] == "KeyboardInterrupt"


@pytest.mark.parametrize(
    "cell",
    ["if worker_id == 0: {later}\nwhile True:\n    pass", "%%local\n{later}\nawait asyncio.sleep(60)"],
    ids=["of all workers", "local"],
)
def test_the_stop_button_is_heard_by_a_loop_that_falls_asleep(fresh, cell):
    # What `interrupt_main` does wakes nothing up, as a signal that comes between the loop's last look and its
    # sleep; beside workers that compute it waits there for the interpreter's lock.
    fresh.ok("import threading, _thread")
    fresh.ok("%%local\nimport asyncio, threading, _thread")
    began = time.monotonic()
    ran = fresh.run(cell.format(later="threading.Timer(1, _thread.interrupt_main).start()"))
    assert time.monotonic() - began < LIMIT_S
    assert ran.error["ename"] in ("KeyboardInterrupt", "CancelledError"), ran.traceback


def test_what_front_ends_execute_for_themselves_does_not_reach_the_workers(fresh):
    message = fresh.client.execute("hidden = 1", store_history=False)
    fresh.finish(message)
    message = fresh.client.execute("secret = 2", silent=True)
    fresh.finish(message)
    assert fresh.ok("%%local\nhidden + secret").value == "3"
    assert "NameError" in fresh.run("hidden").traceback


def test_without_the_extension_it_is_ipythons_kernel(fresh):
    fresh.ok("%unload_ext disco_magic")
    assert fresh.ok("x = 20\nx + 1").value == "21"
    fresh.ok("%load_ext disco_magic")


def test_ipykernel_still_has_what_the_kernel_replaces():
    # Private there: renamed, the stop button would be as slow as it is without ours.
    from ipykernel.ipkernel import IPythonKernel

    assert list(inspect.signature(IPythonKernel._cancel_on_sigint).parameters) == ["self", "future"]


def test_exit_ends_it(place):
    kernel = Kernel("disco")
    try:
        cell = kernel.send("exit")
        reply = kernel._reply(cell)
        assert [each["source"] for each in reply["content"]["payload"]] == ["ask_exit"]
    finally:
        kernel.close()


@pytest.mark.parametrize("busy", ["while True:\n    pass", "import time\ntime.sleep(600)"])
def test_a_shutdown_does_not_wait_for_busy_workers(place, busy):
    kernel = Kernel("disco")
    try:
        cell = kernel.send(f"print('started')\n{busy}")
        kernel.until_text(cell, "started", times=4)
        began = time.monotonic()
        kernel.client.shutdown()
        kernel.manager.provisioner.process.wait(LIMIT_S)
        assert time.monotonic() - began < LIMIT_S
    finally:
        kernel.close()


def test_a_restart_gives_a_kernel_that_runs_cells_on_new_workers(place):
    kernel = Kernel("disco", ["--workers=2"])
    try:
        kernel.ok("x = 1")
        kernel.manager.restart_kernel(now=False)
        kernel.client.wait_for_ready(timeout=LIMIT_S)
        assert "NameError" in kernel.run("x").traceback
        assert kernel.ok("num_workers").value == "[0-1] 2"
    finally:
        kernel.close()


def test_options_of_the_kernel_are_those_of_its_sessions(place):
    kernel = Kernel(
        "disco",
        ["--workers=4", "--groups=2", "--mesh=dp=2,tp=2", "--ccl=threads", "--devices=cpu", "--kind=threads"],
    )
    try:
        assert kernel.ok("worker.group").value == "[0-1] 0\n[2-3] 1"
        assert kernel.ok("int(allreduce(worker_id, over='dp'))").value == "[0,2] 2\n[1,3] 4"
    finally:
        kernel.close()


def test_an_option_that_is_impossible_is_told_with_the_first_cell_and_costs_only_itself(place):
    # The kernel starts with a cell of its own, before anybody can see what that says.
    kernel = Kernel("disco", ["--workers=0", "--groups=2", "--IPKernelApp.exec_lines=early = 1"])
    try:
        first = kernel.ok("worker.group")
        assert first.value == "[0-1] 0\n[2-3] 1"
        (line,) = first.text("stderr").splitlines()
        assert line.startswith("disco_magic: DiscoMagics.workers stays 4: ")
        assert kernel.ok("1").text("stderr") == ""
    finally:
        kernel.close()


def test_it_can_be_unloaded_from_the_start(place):
    kernel = Kernel("disco")
    try:
        kernel.ok("%unload_ext disco_magic")
        assert kernel.ok("x = 20\nx + 1").value == "21"
    finally:
        kernel.close()


def test_its_options_are_in_its_help(place):
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "disco_magic.notebook.kernel", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    for option in ("--workers", "--groups", "--mesh", "--kind", "--ccl", "--devices"):
        assert option in done.stdout


def test_a_stop_before_a_cell_is_sent_stops_it_there(fresh):
    fresh.ok(
        "%%local\nimport os, signal\nfrom disco_magic.notebook import execution\n"
        "prepare = execution._prepare\n"
        "def stopped(*given):\n"
        "    execution._prepare = prepare\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return prepare(*given)\n"
        "execution._prepare = stopped"
    )
    ran = fresh.run("print('ran')")
    assert (ran.error["ename"], ran.error["evalue"]) == (
        "KeyboardInterrupt",
        "stopped before the cell was sent",
    )
    assert ran.lines == []
    assert fresh.ok("allreduce(1)").value.startswith("[0-")
