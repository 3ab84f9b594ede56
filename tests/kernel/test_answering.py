"""Questions of the front end while a cell runs in the Disco kernel: answered before the cell has ended."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.kernels import PATIENCE_S

# The cell of each state, which ends when there is a file GATE; how often it says that it has started.
UNTIL = "print('started')\nwhile not os.path.exists(GATE): {}\nprint('ended')"
CELLS = {
    "computing": (f"{UNTIL.format('pass')}\nworker_id", 4),
    "sleeping": (f"{UNTIL.format('time.sleep(0.05)')}\nworker_id", 4),
    "awaiting": (f"{UNTIL.format('await asyncio.sleep(0.01)')}\nworker_id", 4),
    "waiting in a collective": (
        f"if worker_id == 0:\n  {UNTIL.format('pass').replace(chr(10), chr(10) + '  ')}\nallgather(1)",
        1,
    ),
    "on one worker": (f"%%disco -w 2 --time\n{UNTIL.format('pass')}\nworker_id", 1),
    "awaiting right here": (f"%%local\n{UNTIL.format('await asyncio.sleep(0.01)')}\n1", 1),
}


@pytest.fixture
def ask(fresh):
    """Sends a question; the content of its answer, which has to be the next on the shell channel."""

    def answer(kind, *arguments):
        asked = getattr(fresh.client, kind)(*arguments)
        reply = fresh.client.get_shell_msg(timeout=PATIENCE_S)
        assert reply["parent_header"]["msg_id"] == asked, reply["msg_type"]
        return reply["content"]

    return answer


@pytest.mark.parametrize("state", CELLS)
def test_questions_are_answered_while_a_cell_is(state, fresh, ask, tmp_path):
    gate, (code, times) = tmp_path / "open", CELLS[state]
    setting = f"import asyncio, os, time\nGATE = {str(gate)!r}"
    fresh.ok(f"%%local\n{setting}")
    fresh.ok(f"{setting}\nweights = np.ones(3)")
    cell = fresh.send(code)
    before = fresh.until_text(cell, "started", times=times)
    later = fresh.send("'later'")
    assert ask("complete", "weig")["matches"] == ["weights"]
    assert "float64" in ask("inspect", "weights", 3)["data"]["text/plain"]
    assert ask("is_complete", "for each in range(3):")["status"] == "incomplete"
    assert ask("kernel_info")["implementation"] == "disco"
    assert ask("comm_info")["status"] == "ok"
    assert any("weights = np.ones(3)" in code for *_, code in ask("history")["history"])
    gate.touch()
    ran = fresh.finish(cell, before)
    assert ran.status == "ok"
    assert ran.text().count("ended") == times
    assert ran.value
    assert fresh.finish(later).value == "[0-3] 'later'"


def test_whoever_asks_hears_the_question_end_and_then_that_a_cell_still_runs(fresh):
    cell = fresh.send("print('started')\nwhile True: pass")
    before = fresh.until_text(cell, "started", times=4)
    asked = fresh.client.complete("wor")
    fresh.client.get_shell_msg(timeout=PATIENCE_S)
    before += fresh.until(lambda message: _state_of(message, asked) == "idle")
    before += fresh.until(lambda message: message["msg_type"] == "status")
    assert [_state_of(each, asked) for each in before if _state_of(each, asked)] == ["busy", "idle"]
    assert _state_of(before[-1], cell) == "busy"
    fresh.interrupt()
    assert fresh.finish(cell, before).error["ename"] == "KeyboardInterrupt"


def test_a_question_that_fails_costs_only_itself(fresh, ask):
    cell = fresh.send("print('started')\nwhile True: pass")
    before = fresh.until_text(cell, "started", times=4)
    fresh.client.shell_channel.send(fresh.client.session.msg("complete_request", {"nothing": "of that"}))
    assert "worker_id" in ask("complete", "worker_")["matches"]
    fresh.interrupt()
    assert fresh.finish(cell, before).error["ename"] == "KeyboardInterrupt"
    assert fresh.ok("worker_id").value


ENDLESS = """
class Endless(dict):
    def _ipython_key_completions_(self):
        print("asked")
        while True: pass
endless = Endless(a=1)
"""


@pytest.mark.parametrize(
    ("code", "times"),
    [("print('started')\nwhile True: pass", 4), ("%%local\nprint('started')\nawait asyncio.sleep(1000)", 1)],
)
def test_the_stop_button_ends_a_cell_also_beside_a_question_that_does_not_end(fresh, code, times):
    fresh.ok("%%local\nimport asyncio")
    fresh.ok(ENDLESS)
    cell = fresh.send(code)
    before = fresh.until_text(cell, "started", times=times)
    fresh.client.complete("endless['")
    before += fresh.until_text(cell, "asked")
    fresh.interrupt()
    assert fresh.finish(cell, before).status == "error"
    assert fresh.ok("worker_id // 4").value == "[0-3] 0"


def test_a_question_does_not_come_after_all_the_cells_that_are_queued(fresh):
    cells = {fresh.send("time.sleep(0.002)" if number else "import time") for number in range(40)}
    # By the kernel's dates: what it has ended while this process stood still waits here for it all at once.
    ended, waits, asked, sent = [], [], fresh.client.complete("worker_"), datetime.now(UTC)
    while cells:
        reply = fresh.client.get_shell_msg(timeout=PATIENCE_S)
        replied = reply["header"]["date"]
        if reply["msg_type"] == "execute_reply":
            cells.discard(reply["parent_header"]["msg_id"])
            ended.append(replied)
        if reply["parent_header"]["msg_id"] == asked:
            waits.append((sent, replied))
            asked, sent = fresh.client.complete("worker_"), datetime.now(UTC)
    waits.append((sent, max(ended)))  # the last one may not be answered
    behind = [sum(begun < end <= answered for end in ended) for begun, answered in waits]
    assert len(ended) == 40
    assert max(behind) < 20, behind


def test_a_cell_that_fails_takes_those_behind_it_along_and_no_question(fresh, ask, tmp_path):
    gate = tmp_path / "open"
    fresh.ok(f"import os\nGATE = {str(gate)!r}")
    cells = [fresh.send(code) for code in (f"{UNTIL.format('pass')}\n1 / 0", "2", "3")]
    assert "worker_id" in ask("complete", "worker_")["matches"]
    gate.touch()  # what was sent before the question is there, too
    replies = [fresh.client.get_shell_msg(timeout=PATIENCE_S) for _ in cells]
    answers = {reply["parent_header"]["msg_id"]: reply["content"] for reply in replies}
    assert [answers[cell]["status"] for cell in cells] == ["error", "aborted", "aborted"]
    assert fresh.ok("worker_id // 4").value == "[0-3] 0"


def test_a_question_after_a_cell_leaves_the_kernel_idle(fresh, ask):
    fresh.ok("fresh_name = 1")
    assert ask("complete", "fresh_na")["matches"] == ["fresh_name"]
    later = fresh.send("1")
    seen = fresh.until(lambda message: _state_of(message, later) == "busy")
    states = [each["content"]["execution_state"] for each in seen if each["msg_type"] == "status"]
    assert states == ["busy", "idle", "busy"]
    fresh.finish(later)


def test_a_cell_of_a_subshell_is_none_that_questions_are_answered_beside(fresh, ask):
    session, client = fresh.client.session, fresh.client
    client.control_channel.send(session.msg("create_subshell_request", {}))
    subshell = client.get_control_msg(timeout=PATIENCE_S)["content"]["subshell_id"]
    cell = fresh.send("print('started')\nwhile True: pass")
    before = fresh.until_text(cell, "started", times=4)
    beside = session.msg("execute_request", {"code": "%%local\n1", "silent": False, "store_history": False})
    beside["header"]["subshell_id"] = subshell
    client.shell_channel.send(beside)
    reply = client.get_shell_msg(timeout=PATIENCE_S)
    assert reply["parent_header"]["msg_id"] == beside["header"]["msg_id"]
    asked = client.complete("worker_")
    assert "worker_id" in client.get_shell_msg(timeout=PATIENCE_S)["content"]["matches"]
    before += fresh.until(lambda message: _state_of(message, asked) == "idle")
    before += fresh.until(lambda message: _state_of(message, cell) == "busy")
    fresh.interrupt()
    assert fresh.finish(cell, before).error["ename"] == "KeyboardInterrupt"
    client.control_channel.send(session.msg("delete_subshell_request", {"subshell_id": subshell}))
    assert client.get_control_msg(timeout=PATIENCE_S)["content"]["status"] == "ok"


def _state_of(message, asked):
    """The status that `message` gives of the request `asked`; None if it gives none."""
    if message["msg_type"] != "status" or message["parent_header"].get("msg_id") != asked:
        return None
    return message["content"]["execution_state"]
