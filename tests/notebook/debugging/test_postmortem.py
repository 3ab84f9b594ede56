"""``%disco debug`` and IPython's own ``%debug`` after a failure of workers, in a real kernel and a shell."""

from __future__ import annotations

import pytest

from tests.notebook.talk import asked, shown

NAP = (
    "__import__('time').sleep(0.01)"  # of a cell that is to take too long: to compute would keep a core busy
)
FAILING = (
    "%%disco\nx = np.ones(3) * worker_id\ndef f(a):\n    b = a * 2\n    if worker_id:\n"
    "        raise ValueError(f'bad {worker_id}')\n    return b\ny = f(x)\nz = allreduce(y)"
)


def look(kernel, line, answers, prompt):
    """Run `line` and answer at its prompt, which is `prompt`; what it printed."""
    cell = kernel.send(line)
    for each in answers:
        worker, text = asked(kernel)
        assert (text if worker is None else f"[{worker}] {text}") == prompt
        kernel.client.input(each)
    ran = kernel.finish(cell)
    assert ran.status == "ok", ran.traceback
    return shown(ran)


# --- where it lands --------------------------------------------------------------------------------------


def test_it_lands_in_the_line_that_failed_first_with_the_listing_of_the_cell(fresh):
    fresh.run(FAILING)
    text = look(fresh, "%disco debug", ["p worker_id, b", "q"], "[1] ipdb> ")
    assert text.startswith("Cell In[")
    assert " on worker 1: ValueError: bad 1\n" in text
    assert "----> 6         raise ValueError(f'bad {worker_id}')" in text
    assert "(1, array([2., 2., 2.]))" in text


def test_up_and_down_move_within_the_user_s_frames(fresh):
    fresh.run(FAILING)
    text = look(fresh, "%disco debug", ["u", "p x", "u", "d", "a", "q"], "[1] ipdb> ")
    assert "----> 8 y = f(x)" in text
    assert "*** Oldest frame" in text
    assert "a = array([1., 1., 1.])" in text


def test_of_calls_that_do_not_fit_it_lands_at_the_one_that_is_another_than_most(fresh):
    assert fresh.run("%%disco\ny = allreduce(np.ones(3 + (worker_id == 2)))").status == "error"
    text = look(fresh, "%disco debug", ["p worker_id", "q"], "[2] ipdb> ")
    assert text.rstrip().endswith("2")


@pytest.mark.parametrize(("option", "worker", "line"), [("-w 3", 3, 6), ("-w -1", 3, 6), ("-w 0", 0, 9)])
def test_another_worker_can_be_looked_at_also_one_that_only_waited(fresh, option, worker, line):
    fresh.run(FAILING)
    text = look(fresh, f"%disco debug {option}", ["p worker_id", "q"], f"[{worker}] ipdb> ")
    assert f"----> {line}" in text
    assert text.rstrip().endswith(str(worker))


def test_registers_can_be_changed(fresh):
    fresh.run(FAILING)
    look(fresh, "%disco debug -w 2", ["u", "!x = 'mended'", "q"], "[2] ipdb> ")
    assert fresh.ok("%%disco -w 2\nx").value == "[2] 'mended'"
    assert fresh.ok("%%disco -w 2\n[name for name in globals() if 'pdb' in name]").value == "[2] []"


def test_interact_is_there_and_leads_back(fresh):
    fresh.run(FAILING)
    cell = fresh.send("%disco debug")
    script = [("ipdb> ", "interact"), (">>> ", "b.sum()"), (">>> ", "exit"), ("ipdb> ", "q")]
    for prompt, line in script:
        assert asked(fresh) == (1, prompt)
        fresh.client.input(line)
    assert "6.0" in shown(fresh.finish(cell))


def test_the_exception_s_causes_can_be_looked_at(fresh):
    fresh.run(
        "%%disco -w 2\ntry:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError from error"
    )
    text = look(fresh, "%disco debug", ["exceptions", "exceptions 0", "q"], "[2] ipdb> ")
    assert "ZeroDivisionError('division by zero')" in text
    assert "----> 3     1 / 0" in text


@pytest.mark.parametrize("wait", ["%disco sync", "session.sync_all()", "r.get(1)"])
def test_a_function_that_was_called_can_be_looked_at_however_its_failure_was_shown(fresh, wait):
    fresh.ok(
        "import disco_magic\nsession = disco_magic.session()\ndef g(a):\n    c = a + 1\n    raise KeyError(c)"
    )
    fresh.ok("r = session.call_packed(g, 4)")
    assert fresh.run(wait).status == "error"
    text = look(fresh, "%disco debug -w 1", ["p c", "q"], "[1] ipdb> ")
    assert "call g on worker 1: KeyError: 5" in text
    assert "raise KeyError(c)" in text


def test_what_a_failure_has_poisoned_leads_to_where_it_began(fresh):
    fresh.ok("import disco_magic\nsession = disco_magic.session()\ndef g(a):\n    raise KeyError(a)")
    fresh.ok("r = session.call_packed(g, 4)\ns = session.call_packed(abs, r)\ndel r")
    assert fresh.run("s.get(2)").status == "error"
    assert "raise KeyError(a)" in look(fresh, "%disco debug -w 2", ["q"], "[2] ipdb> ")


def test_a_cell_that_was_stopped_shows_where_each_worker_was(fresh):
    cell = fresh.send(
        "%%disco\nimport disco_magic, threading\ni, turns = 7, []\ndef tell():\n"
        "    look = disco_magic.session().doctor\n"
        "    while not turns or sum(each.state == 'waiting' for each in look().positions) < 3: pass\n"
        "    print('ready')\n"
        "if worker_id == 1:\n    threading.Thread(target=tell).start()\n    while True:\n"
        "        turns[:] = [i]\nbarrier()"
    )
    before = fresh.until_text(cell, "ready\n")
    fresh.interrupt()
    fresh.finish(cell, before)
    assert "\n7\n" in look(fresh, "%disco debug -w 1", ["p i", "q"], "[1] ipdb> ")
    assert "---> 12 barrier()" in look(fresh, "%disco debug -w 3", ["q"], "[3] ipdb> ")


# --- IPython's own ---------------------------------------------------------------------------------------


def test_debug_of_ipython_lands_in_the_first_failed_worker_s_frame(fresh):
    fresh.run(FAILING)
    text = look(fresh, "%debug", ["p worker_id, b", "up", "up", "up", "q"], "ipdb> ")
    assert "----> 6         raise ValueError" in text
    assert "(1, array([2., 2., 2.]))" in text
    assert "Oldest frame" in text
    assert "disco_magic" not in text


@pytest.mark.parametrize(
    ("option", "does"),
    [("--timeout 2", NAP), ("", "pass")],
    ids=["time out", "stop button"],
)
def test_debug_of_ipython_lands_where_a_cell_was_that_was_stopped(fresh, option, does):
    cell = fresh.send(
        f"%%disco {option}\ndef f():\n    told = 'here'\n    print('in')\n    while True: {does}\nf()"
    )
    before = fresh.until_text(cell, "in\n", times=4)
    if not option:
        fresh.interrupt()
    assert fresh.finish(cell, before).status == "error"
    text = look(fresh, "%debug", ["p told", "q"], "ipdb> ")
    assert f"----> 5     while True: {does}" in text
    assert "'here'" in text


def test_pdb_on_opens_it_by_itself(fresh):
    fresh.ok("%pdb on")
    try:
        cell = fresh.send(FAILING)
        for line in ["p worker_id", "q"]:
            assert asked(fresh) == (None, "ipdb> ")
            fresh.client.input(line)
        ran = fresh.finish(cell)
    finally:
        fresh.ok("%pdb off")
    assert "----> 6         raise ValueError" in shown(ran)
    assert ran.error["ename"] == "CellError"


# --- commands instead of questions -----------------------------------------------------------------------


def test_commands_are_shown_and_executed_where_nobody_can_be_asked(fresh):
    fresh.run(FAILING)
    ran = fresh.ok("%disco debug -w 2 -c \"p worker_id, b\" -c up -c 'p y'")
    text = shown(ran)
    assert "[2] ipdb> p worker_id, b\n(2, array([4., 4., 4.]))\n[2] ipdb> up\n" in text
    assert "NameError" in text.partition("ipdb> p y")[2]
    assert not text.rstrip().endswith("q")
    text = look(fresh, "%disco debug", ["p worker_id", "q"], "[1] ipdb> ")
    assert "ipdb>" not in text.partition("bad 1\n")[2]


@pytest.mark.parametrize(
    "cell",
    [
        f"%%disco --timeout 2\nwhile worker_id == 2: {NAP}\nallreduce(1)",
        "%%disco\nfor i in (0, 1):\n    if i and worker_id == 2: continue\n    barrier()\nallreduce(1)",
    ],
    ids=["a loop", "a call left out"],
)
def test_it_lands_where_a_worker_is_that_others_waited_for_or_did_not_meet(fresh, cell):
    fresh.run(cell)
    text = look(fresh, "%disco debug", ["p worker_id", "q"], "[2] ipdb> ")
    assert " on worker 2: " in text


@pytest.mark.parametrize(
    ("cell", "named"),
    [
        (
            "%%disco\nx = np.ones(2 + (worker_id == 1))\nif worker_id == 3: allreduce(x)\nelse: allreduce(x)",
            "failed on worker 1 (and 3 others)",
        ),
        (
            "%%disco\nx = np.ones(2 + worker_id % 2)\nif worker_id == 1: allreduce(x)\nelse: allreduce(x)",
            "failed on worker 1 (and 3 others)",
        ),
        (
            f"%%disco --timeout 2\nwhile worker_id < 2: {NAP}\nallreduce(1, over=[1, 2, 3])",
            "worker 1 keeps workers [2-3] waiting",
        ),
    ],
    ids=["another call", "another line", "another one that nobody waits for"],
)
def test_it_lands_on_the_worker_that_the_error_names(fresh, cell, named):
    ran = fresh.run(cell)
    assert named in "\n".join([ran.error["evalue"], *ran.lines])
    text = look(fresh, "%disco debug", ["q"], "[1] ipdb> ")
    assert " on worker 1: " in text


def test_where_nobody_can_answer_it_is_said_how_to_look_all_the_same(fresh):
    fresh.run(FAILING)
    ran = fresh.finish(fresh.client.execute("%disco debug", allow_stdin=False))
    assert (
        "takes no input, as nbconvert and papermill; say what to look at: %disco debug -c"
        in ran.error["evalue"]
    )


def test_a_cell_that_has_failed_by_itself_can_be_looked_at_before_its_handle_is_asked(fresh, tmp_path):
    gate = tmp_path / "open"
    wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    cell = fresh.send(f"%%disco --nowait -o h\n{wait}\nmine = 7 * worker_id\n1 / (worker_id - 2)")
    fresh.finish(cell)
    gate.touch()
    fresh.until_text(cell, "failed after its cell")
    assert "\n14\n" in look(fresh, "%disco debug", ["p mine", "q"], "[2] ipdb> ")


def test_the_debugger_s_commands_name_the_worker_s_variables(fresh):
    fresh.ok("k = 99")
    fresh.run("%%disco\nk = 3\n1 / (worker_id - 1)")
    ran = fresh.ok("%disco debug -c 'p f\"{k}\"' -c 'p {k: 1}'")
    text = "\n".join(ran.lines)
    assert "'3'" in text
    assert "{3: 1}" in text
