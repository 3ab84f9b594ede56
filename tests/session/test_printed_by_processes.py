"""What scripts, threads, forked processes and those that end at once print."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import disco_magic as disco

with disco.ThreadedSession(2) as s:
    s.run("print('hello from', worker_id)")
print("done")
"""


def run_script(text):
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(  # noqa: S603 - this interpreter, a script of ours
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False, env=ours
    )


BEGIN = "import disco_magic as disco, os\nwith disco.ThreadedSession(2) as s:\n    "


END = "import os\nprint('epoch', worker_id, flush=True)\nbarrier()\nif worker_id: os._exit(3)\nbarrier()"


FORK = """import os
if worker_id:
    if os.fork() == 0:
        print('child', flush=True)
        os._exit(0)
    os.wait()
"""


def test_what_was_flushed_is_there_when_the_process_ends_at_once():
    ran = run_script(f"{BEGIN}s.run({END!r})")
    assert (ran.returncode, sorted(ran.stdout.splitlines())) == (3, ["[0] epoch 0", "[1] epoch 1"])


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_what_a_forked_process_flushes_is_there():
    ran = run_script(f"{BEGIN}s.run({FORK!r})")
    assert ran.stdout == "[1] child\n"


def test_a_script():
    ran = run_script(SCRIPT)
    assert sorted(ran.stdout.splitlines()) == ["[0] hello from 0", "[1] hello from 1", "done"]
    assert ran.stdout.endswith("done\n")
    assert (ran.returncode, ran.stderr) == (0, "")


CHAT = """
import threading
import disco_magic as disco

done = threading.Event()

def chat():
    while not done.is_set():
        print("beside")

# Python itself is aborted where a daemon is at a stream when the process ends.
chatting = threading.Thread(target=chat)
with disco.ThreadedSession(4) as s:
    chatting.start()
    for _ in range(30):
        s.run("1")
    done.set()
chatting.join()
print("ended", flush=True)
"""


def test_threads_may_print_while_cells_begin_and_end():
    # `print` calls the stream that it found in sys.stdout without holding it, see `streams`.
    ran = run_script(CHAT)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "ended" in ran.stdout
