"""``%disco who``, ``whos`` and ``log``: what workers hold and what they did, in short."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from IPython.core.error import UsageError

from disco_magic.core.history import Entry, History
from disco_magic.core.markup import table_style
from disco_magic.errors import CellError, Divergence, UsageMistake
from disco_magic.notebook.tables.reports import history_html
from disco_magic.session.current import session

CELL = """%%disco
W = np.ones((2, 3), dtype="float32")
lr = 0.1
x = worker_id
_private = 1
if worker_id != 1:
    shard = np.zeros(2)
del_me = [1, 2]"""


def tree_of(html):
    """The HTML as a tree; it has to be well formed."""
    return ET.fromstring(f"<page>{html}</page>")  # noqa: S314 - our own


def cells_of(page):
    return [["".join(cell.itertext()) for cell in row] for row in page.findall(".//tbody/tr")]


# --- who -----------------------------------------------------------------------------------------------


def test_who_lists_names_and_marks_those_that_differ(four):
    four.run(CELL)
    four.run("%disco who")
    assert four.lines == [
        "[0-3]    W  del_me  lr  x≠",
        "[0,2-3]  shard≠",
        "≠ differs between workers",
    ]


def test_who_marks_what_was_compared_by_type_only(four):
    four.run("%%disco\nimport threading, math\nlock, n, lr = threading.Lock(), worker_id, 1\ndef f(): pass")
    four.run("%disco who")
    assert four.lines == [
        "[0-3]  f  lock?  lr  math  n≠  threading",
        "≠ differs between workers, ? compared by type only",
    ]
    four.run("%disco who -w 2")
    assert four.lines == ["[2]  f  lock  lr  math  n  threading"]


def test_who_returns_nothing_as_ipython_s_own(four):
    assert four.run(f"{CELL}") is None
    assert four.run("%disco who") is None
    assert four.run("%disco whos") is None


def test_of_some_workers_only_their_differences_count(four):
    four.run(CELL)
    four.run("%disco who -w 0,2")
    assert four.lines == ["[0,2]  W  del_me  lr  shard  x≠", "≠ differs between workers"]
    four.run("%disco who -w 1")
    assert four.lines == ["[1]  W  del_me  lr  x"]
    assert "there is no worker 9" in str(four.fail("%disco who -w 9", UsageMistake))


@pytest.mark.parametrize(
    ("types", "names"),
    [("int", "x≠"), ("float ndarray", "W  lr"), ("float32", "W"), ("list int", "del_me  x≠")],
)
def test_types_and_dtypes_choose(four, types, names):
    four.run(CELL)
    four.run(f"%disco who {types}")
    assert four.lines[0] == f"[0-3]  {names}" or four.lines[0] == f"[0-3]    {names}"


def test_who_says_when_there_is_nothing(four):
    four.run("%disco who")
    assert four.lines == [f"Disco session {session().id}: 0 registers"]
    four.run(CELL)
    four.run("%disco who zebra int8")
    assert four.lines == [f"Disco session {session().id}: no register is of type zebra or int8"]


def test_many_names_are_wrapped_under_each_other(four):
    four.run("%%disco\nglobals().update({f'name_{number:03}': 1 for number in range(30)})")
    four.run("%disco who")
    assert len(four.lines) > 3
    assert all(len(line) <= 80 for line in four.lines)
    assert all(line.startswith("       name_") for line in four.lines[1:])


def test_whos_of_some_workers_says_what_lists_theirs(four):
    assert "%disco who -w 0,3 lists what these have" in str(four.fail("%disco whos -w 0", UsageError))


@pytest.mark.parametrize("command", ["who", "whos", "log"])
def test_without_a_session_there_is_nothing_to_list(shell, command):
    assert "no session is running" in str(shell.fail(f"%disco {command}", UsageMistake))


# --- whos ----------------------------------------------------------------------------------------------


def test_whos_lists_by_name_what_every_worker_has(four):
    four.run(CELL)
    four.run("%disco whos")
    assert [line.partition("[")[0].split() for line in four.lines[1:-1]] == [
        ["W"],
        ["del_me"],
        ["lr"],
        ["shard"],
        ["\u2260"],
        ["\u2260", "x"],
        *[["\u2260"]] * 3,
    ]
    assert four.lines[0].endswith("5 registers, 2 differ between workers (\u2260)")
    assert "[0-3] float32 2\u00d73 \u00b7 cpu \u00b7 24 B \u00b7 min 1 mean 1 max 1" in four.lines[1]


def test_whos_lists_the_types_that_are_asked_for_also_modules_and_functions(four):
    four.run(f"{CELL}\nimport math\ndef f(): pass")
    four.run("%disco whos module function int")
    assert [line.split()[0 if line[0] == " " else 1] for line in four.lines[1:4]] == ["f", "math", "x"]
    four.run("%disco whos zebra")
    assert four.lines == [f"Disco session {session().id}: no register is of type zebra"]


@pytest.mark.parametrize("command", ["who", "whos"])
def test_who_takes_types_and_says_what_takes_the_name_of_a_register(four, command):
    four.run(CELL)
    four.run(f"%disco {command} W")
    said = "no register is of type W; %disco registers W shows the one of that name"
    assert four.lines == [f"Disco session {session().id}: {said}"]


def test_marks_have_no_background_on_pages_with_bootstrap_which_gives_them_one():
    rule = next(line for line in table_style("listing").splitlines() if line.startswith(".listing .mark"))
    assert "background:none;padding:0" in rule


def test_a_kernel_shows_whos_as_html_beside_a_busy_worker(fresh):
    fresh.ok("import builtins, threading\nbuiltins.gate = threading.Event()")
    fresh.ok("%%disco --nowait -o handle\nimport builtins\nx = worker_id\nbuiltins.gate.wait(20)")
    ran = fresh.ok(
        "while 'x' not in str(__import__('disco_magic').session().registers(sample=0)): pass\n%disco whos"
    )
    (shown,) = [each["data"] for each in ran.displays]
    assert "disco-registers" in shown["text/html"]
    fresh.ok("builtins.gate.set()\nhandle.wait()")


# --- log -----------------------------------------------------------------------------------------------


def test_the_log_says_how_cells_ended(four):
    four.run("%%disco\nx = 1")
    four.fail("%%disco\nif worker_id == 2:\n    raise ValueError('boom')", CellError)
    four.run("%disco log")
    assert four.lines[0] == f"Disco session {session().id}: the workers' last commands"
    assert [line.split()[0] for line in four.lines[2:]] == ["[0-3]", "[0-1,3]", "[2]"]
    assert [line.rpartition(" ago  ")[2] for line in four.lines[2:]] == [
        "ok",
        "ok",
        "failed: ValueError: boom",
    ]
    assert "  Cell In[3]  " in four.lines[2]


def test_the_log_says_after_which_cells_something_differed(four):
    def ended():
        four.run("%disco log")
        cells = [
            line for line in four.lines if "Cell In[" in line
        ]  # a check is there if it took a millisecond
        return [line.rpartition(" ago  ")[2] for line in cells]

    four.run("%%disco --check\nx = 1")
    four.fail("%%disco --check\ny = 1\nif worker_id == 2: z = 1", Divergence)
    four.fail("%%disco --check\nz = worker_id or 'a'", Divergence)
    assert ended() == [
        "ok",
        "diverged: 'z' differs: not bound on workers [0-1,3], int on worker 2",
        "diverged: 'z' differs: str on worker 0, int on workers [1-3]",
    ]
    four.run("%disco restart")
    four.run("%%disco --check\nx = 1")
    assert ended() == ["ok"]


def test_the_last_ten_commands_are_shown_or_as_many_as_are_asked_for(four):
    for _ in range(12):
        four.run("%%disco\npass")
    for options, count in (("", 10), ("-n 3", 3), ("--all", 12), ("-n 2 -w 1", 2)):
        four.run(f"%disco log {options}")
        assert len(four.lines) == count + 2
    assert four.lines[-1].startswith("[1] ")


@pytest.mark.parametrize("line", ["-n 0", "-n x", "-n -1"])
def test_no_number_of_commands_is_one_line(four, line):
    four.fail(f"%disco log {line}", UsageError)
    assert "is not a count; write a number, 1 or more" in four.err or "expected one argument" in four.err
    assert len(four.err.splitlines()) == 1


def test_all_and_a_number_exclude_each_other(four):
    assert "both say how much is shown" in str(four.fail("%disco log --all -n 3", UsageMistake))


def test_what_runs_and_what_waits_behind_it_is_in_the_log(four, gate):
    four.ip.user_ns["gate"] = gate
    four.run("%disco broadcast gate")
    four.run("%%disco --nowait -o first\nif worker_id == 3:\n    gate()")
    gate.arrived()
    four.run("%%disco --nowait -o second\npass")
    session().call_packed(int)
    four.run("%disco log -w 0-2")
    while "running" in four.out or "queued" in four.out:
        four.run("%disco log -w 0-2")
    four.run("%disco log")
    # What else was done is there if it took a millisecond.
    lines = [line for line in four.lines if "Cell In[" in line or "other command" in line]
    assert [(line.split()[0], line.split()[-1]) for line in lines] == [
        ("[0-2]", "ok"),
        ("[3]", "running"),
        ("[0-2]", "ok"),
        ("[3]", "queued"),
        ("[3]", "queued"),
    ]
    assert "Cell In[5]" in lines[-2]
    assert "1 other command" in lines[-1]
    four.run("%disco log -w 0,1")
    assert "queued" not in four.out
    gate.open()
    four.run("second.wait()")


def test_commands_without_a_handle_are_queued_by_number(crew, gate):
    kept = [session().call_packed(gate) for _ in range(3)]
    gate.arrived(crew.n)
    crew.run("%disco log")
    assert crew.lines[-1].split() == [crew.lines[-1].split()[0], "2", "commands", "queued"]
    gate.open()
    session().sync_all()
    del kept


def test_after_a_restart_the_log_begins_anew(four):
    four.run("%%disco\nx = 1")
    four.run("%disco restart")
    four.run("%disco log")
    assert four.lines == [f"Disco session {session().id}: the workers have done nothing yet"]


def test_a_notebook_shows_the_log_as_a_table():
    entries = (
        Entry((0,), "call <lambda>", "failed", "ValueError: boom", 3.0, (0.5, 0.5)),
        Entry((1,), "Cell In[2]", "ok", "", 2.0, (0.5, 1.5)),
    )
    page = tree_of(history_html(History(3, entries, "7 older ones were dropped")))
    assert cells_of(page) == [
        ["[0]", "call <lambda>", "500.0 ms", "3.00 s ago", "failed: ValueError: boom"],
        ["[1]", "Cell In[2]", "500.0 ms - 1.50 s", "2.00 s ago", "ok"],
    ]
    assert [row.get("class") for row in page.findall(".//tbody/tr")] == ["failed", "ok"]
    assert "".join(page.find(".//tfoot").itertext()) == "7 older ones were dropped"
    assert "writing-mode" not in "".join(page.itertext())  # no head is longer than what is below it
    assert cells_of(tree_of(history_html(History(3, ())))) == []


def test_a_shell_knows_how_a_log_looks(four):
    data, _ = four.ip.display_formatter.format(History(3, ()))
    assert "disco-log" in data["text/html"]
