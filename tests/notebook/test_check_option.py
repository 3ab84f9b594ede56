"""``%%disco --check`` in a real shell, and a report as a table."""

from __future__ import annotations

import signal
import threading
from html.parser import HTMLParser

import pytest
from IPython.core.error import UsageError

from disco_magic.core.check_row import CheckRow
from disco_magic.core.circles import Circles
from disco_magic.core.held import Held
from disco_magic.core.report import CheckReport
from disco_magic.errors import CellError, Divergence, SyncTimeout, UsageMistake
from disco_magic.functions import holdings
from disco_magic.notebook.tables.reports import report_html
from disco_magic.session.current import session
from disco_magic.testing.doubles import Gate
from tests.session.conftest import main_waits, until


def differing(error):
    return {row.name: row.aspects for row in error.report.differing}


# --- types and shapes ------------------------------------------------------------------------------


def test_a_cell_whose_registers_agree_ends_with_a_line_that_says_which(crew):
    result = crew.run("%%disco --check\nx = np.zeros((3, 4)); n = 3\nx.sum()")
    who = f"[0-{crew.n - 1}]" if crew.n > 1 else "[0]"
    agree = "agree" if crew.n > 1 else "agrees"
    assert crew.lines == [f"check {who} {agree} on type and shape of: x, n", f"{who} 0.0"]
    assert result.values == [0.0] * crew.n


def test_a_cell_whose_registers_differ_fails_and_says_how(four):
    error = four.fail(
        "%%disco --check\nw = np.zeros((3, 4), 'float64' if worker_id == 3 else 'float32'); n = 3\n'done'",
        Divergence,
    )
    assert str(error).split("\n")[0] == (
        "Cell In[3]: 'w' differs: float32 (3, 4) on workers [0-2], float64 (3, 4) on worker 3"
    )
    assert differing(error) == {"w": ("dtype",)}
    assert error.result.values == ["done"] * 4
    shown = four.out.splitlines()
    assert "≠ w  dtype  [0-2]  float32 (3, 4)" in shown
    assert not any("Traceback" in line or "disco_magic/" in line for line in shown)


def test_only_what_the_cell_bound_is_compared(four):
    four.run("%%disco\nold = np.zeros(worker_id); a = np.zeros(2); p = [1]")
    four.run("%%disco --check\na += 1; q = p")
    assert four.lines == ["check [0-3] agree on type and shape of: a, q"]
    assert differing(four.fail("%%disco --check\nold = old + 1", Divergence)) == {"old": ("shape",)}


@pytest.mark.parametrize(
    ("source", "aspects"),
    [
        ("if worker_id: x = 1", {"x": ("missing",)}),
        ("if worker_id == 2: del kept", {"kept": ("missing",)}),
        ("globals()['x'] = [0] * (1 + worker_id)", {"x": ("shape",)}),
        ("grow()", {"grown": ("shape",)}),
        ("for i in range(worker_id): pass", {"i": ("missing",)}),
        ("import os as system\nif worker_id: system = 1", {"system": ("type",)}),
        ("await_me = [await done() for _ in range(worker_id)]", {"await_me": ("shape", "elements")}),
    ],
)
def test_names_are_compared_however_the_cell_binds_them(four, source, aspects):
    four.run(
        "%%disco\nkept = 1\n"
        "def grow():\n    global grown\n    for _ in range(2): grown = [[]] * worker_id\n"
        "async def done(): return 1\ngrow()"
    )
    assert differing(four.fail(f"%%disco --check\n{source}", Divergence)) == aspects


def test_a_cell_that_fails_is_not_checked(four):
    four.fail("%%disco --check\nx = np.zeros(worker_id)\n1 / (worker_id - 1)", CellError)
    assert "check [" not in four.out


def test_the_workers_that_ran_the_cell_are_compared(four):
    four.run("%%disco -w 1,2 --check\nx = np.zeros(2 if worker_id in (1, 2) else 3)")
    assert four.lines == ["check [1-2] agree on type and shape of: x"]
    four.fail("%%disco -w 1,2 --check\nx = np.zeros(worker_id)", Divergence)


def test_a_cell_that_binds_nothing_has_nothing_to_compare(four):
    four.run("%%disco --check\nworker_id;")
    assert four.lines == ["check [0-3] no registers to compare"]


def test_a_cell_without_the_option_is_not_looked_at(four, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError

    monkeypatch.setattr("disco_magic.functions.execution.running.Watch", refuse)
    monkeypatch.setattr("disco_magic.notebook.commands.checking.checked_cell", refuse)
    four.run("%%disco\nx = np.zeros(worker_id)")
    assert four.lines == []


UNMARKED = "no values: `worker.replicated` marks what is to be equal"


def test_without_marks_the_line_says_that_no_values_were_compared(four):
    four.run("%%disco --check values\nw = np.full(3, worker_id)")
    assert four.lines == [f"check [0-3] agree on type and shape of: w; {UNMARKED}"]
    four.run("%%disco --check values\npass")
    assert four.lines == ["check [0-3] no registers to compare"]


# --- values ----------------------------------------------------------------------------------------


def test_a_training_step_that_lets_one_worker_drift_is_found(four):
    four.run("%%disco --check values\nw = worker.replicated(np.zeros(3)); mine = np.full(2, worker_id)")
    assert four.lines == ["check [0-3] agree on: w; agree on type and shape of: mine"]
    four.run("%%disco --check values\nw -= allreduce(np.ones(3)) / num_workers")
    error = four.fail("%%disco --check values\nw = w - np.full(3, worker_id == 3)", Divergence)
    first, *table = str(error).split("\n")[:5]
    assert first == (
        "Cell In[5]: 'w' differs: float64 (3,) [-1. -1. -1.] on workers [0-2], "
        "float64 (3,) [-2. -2. -2.] on worker 3"
    )
    assert table == [
        "",
        "≠ w  value  [0-2]  float64 (3,) [-1. -1. -1.]",
        "            [3]    float64 (3,) [-2. -2. -2.]",
        "                   3 of 3 elements differ from the first worker's, by up to 1",
    ]


def test_marked_registers_that_a_cell_changed_in_place_are_compared_too(four):
    four.run("%%disco\nw = worker.replicated(np.zeros(3)); other = np.zeros(worker_id)")
    assert differing(four.fail("%%disco --check values\nw[worker_id % 3] = 7", Divergence)) == {
        "w": ("value",)
    }
    four.run("%%disco --check\nw[0] = worker_id")


def test_marked_parts_are_compared_too(four):
    four.run(
        "%%disco\nnet = {'norm': np.ones(3), 'w': np.full(3, worker_id)}\nworker.replicated(net['norm']);"
    )
    four.run("%%disco --check values\nx = 1")
    assert four.lines == ["check [0-3] agree on: net['norm']; agree on type and shape of: x"]
    error = four.fail("%%disco --check values\nnet['norm'][1] += worker_id == 2", Divergence)
    assert differing(error) == {"net['norm']": ("value",)}


ALIASED = "params = {'w': np.zeros(3), 'b': np.zeros(3)}\nw = params['w']"


@pytest.mark.parametrize(
    "mark",
    [
        "for n in params: worker.replicated(params[n])",
        "worker.replicated(params['w'], params['b'])",
        "import types\nparams = types.SimpleNamespace(**params)\nworker.replicated(params.w, params.b)",
    ],
)
def test_a_part_that_a_name_holds_too_is_marked_where_the_call_names_it(four, mark):
    # The name had the mark: the part drifted, and checks said that all was equal.
    four.run(f"%%disco\n{ALIASED}")
    four.run(f"%%disco\n{mark}")
    at = ".w" if "types" in mark else "['w']"
    four.run(f"%%disco\nw = np.full(2, worker_id)\nparams{at} = params{at} - 0.1 * (worker_id == 3)")
    error = four.fail("%%disco --check values\nx = 1", Divergence)
    assert differing(error) == {f"params{at}": ("value",)}


def test_a_mark_that_only_some_workers_made_fails_a_check_of_values(four):
    four.run("%%disco\nw = np.zeros(3)\nif worker_id != 3: w = worker.replicated(w)")
    error = four.fail("%%disco --check values\nother = 1", Divergence)
    assert "'w' is marked replicated on workers [0-2] only" in str(error)
    four.run("%%disco --check\nw = w + 1")


def test_the_line_says_what_was_not_looked_into(four):
    four.run("%%disco\nclass Net: __slots__ = ()")
    four.run("%%disco --check\nnet = Net()")
    assert four.lines == ["check [0-3] agree on type and shape of: net; not compared: net (what is in Net)"]


@pytest.mark.parametrize("forget", ["%%disco\ndel w", "%disco rm w"])
def test_del_and_rm_drop_a_mark(four, forget):
    four.run("%%disco\nw = worker.replicated(np.zeros(3))")
    four.run(forget)
    four.run("%%disco --check values\nw = np.full(3, worker_id)")
    assert four.lines == [f"check [0-3] agree on type and shape of: w; {UNMARKED}"]


def test_a_restart_drops_marks(four):
    four.run("%%disco\nw = worker.replicated(np.zeros(3))")
    four.run("%disco restart")
    four.run("%%disco --check values\nw = np.full(3, worker_id)")
    assert four.lines == [f"check [0-3] agree on type and shape of: w; {UNMARKED}"]


# --- beside the other options ----------------------------------------------------------------------


def test_the_result_of_a_cell_that_fails_its_check_is_bound(four):
    error = four.fail("%%disco --check --out r\nx = np.zeros(worker_id)\nworker_id", Divergence)
    assert four.ip.user_ns["r"] is error.result
    assert error.result.values == [0, 1, 2, 3]


def test_nothing_is_pulled_from_registers_that_differ(four):
    four.fail("%%disco --check --pull x\nx = np.zeros(worker_id)", Divergence)
    assert "x" not in four.ip.user_ns
    four.run("%%disco --check --pull x --time\nx = np.zeros(2)")
    assert four.ip.user_ns["x"].tolist() == [0, 0]
    assert [line.split()[0] for line in four.lines[:2]] == ["check", "time"]  # a table where one is late


def test_run_all_stops_at_a_cell_that_fails_its_check(fresh):
    ran = fresh.run("%%disco --check\nx = np.zeros(worker_id)")
    assert (ran.status, ran.error["ename"]) == ("error", "Divergence")
    assert "≠ x  shape  [0]" in ran.traceback
    assert fresh.ok("%%disco --check\nx = 1").lines == ["check [0-3] agree on type and shape of: x"]


@pytest.mark.parametrize(("line", "kind"), [("--check all", UsageError), ("-a --check", UsageMistake)])
def test_options_that_do_not_fit_are_refused(four, line, kind):
    four.fail(f"%%disco {line}\nsent = 1", kind)
    assert session().names() == ()


def test_the_help_knows_the_option(shell):
    shell.run("%%disco -h\n1")
    assert "--check [{types,values,lines}]" in shell.out


@pytest.fixture
def held(four, monkeypatch):
    """A gate at which every worker stops that has begun to look at its registers."""
    gate, survey = Gate(), holdings.survey

    def slow(*arguments, **options):
        gate()
        return survey(*arguments, **options)

    monkeypatch.setattr(holdings, "survey", slow)
    yield gate
    gate.open()
    session().sync_all()


def test_the_timeout_of_a_cell_is_that_of_its_check_too(four, held):
    # The cell itself has to end within it, on a busy machine too: 0.2 s were not enough at a load of 15.
    error = four.fail("%%disco --check --timeout 2\nx = 1\nworker_id", SyncTimeout)
    assert "check: workers [0-3]" in str(error)
    held.open()
    assert error.result.values == [0, 1, 2, 3]


def test_the_stop_button_ends_a_check(four, held):
    def strike():
        held.arrived(4)
        until(main_waits)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    striker = threading.Thread(target=strike, daemon=True)
    striker.start()
    error = four.fail("%%disco --check\nx = 1\nworker_id", KeyboardInterrupt)
    assert str(error).startswith("Cell In[3]: the check was interrupted")
    striker.join()
    held.open()
    assert error.result.values == [0, 1, 2, 3]


# --- the table -------------------------------------------------------------------------------------


class Page(HTMLParser):
    """The texts of a table's rows, and how many rows each head spans."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.spans = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        self.spans += [int(value) for name, value in attrs if name == "rowspan"]

    def handle_data(self, data):
        if self.rows:
            self.rows[-1].append(data)


def test_a_table_marks_what_differs_by_more_than_colour():
    same, other = Held("ndarray", (2,), "int8", "cpu"), Held("ndarray", (3,), "int8", "cpu")
    rows = (
        CheckRow("a", {0: same, 1: same}, Circles(((0, 1),))),
        CheckRow("b['<x>']", {0: same, 1: other}, Circles(((0, 1),))),
    )
    page = Page(report_html(CheckReport("Disco session 1", (0, 1), rows)))
    assert page.rows == [
        ["register", "verdict", "workers", "value"],
        ["b['<x>']", "\u00a0", "≠", "shape", "[0]", "int8 (2,)"],
        ["[1]", "int8 (3,)"],
        ["a", "same type", "[0-1]", "int8 (2,)"],
    ]
    assert page.spans == [2, 1]


def test_a_notebook_shows_a_report_as_a_table(four):
    four.run("%%disco\nx = 1")
    data, _ = four.ip.display_formatter.format(session().check())
    assert len(Page(data["text/html"]).rows) == 2
    assert data["text/plain"].startswith("Disco session")


def test_what_differed_before_comes_after_what_is_new_and_says_so(four):
    four.run("%%disco\nw = worker.replicated(np.zeros(2)); y = worker.replicated(np.zeros(2))")
    first = str(four.fail("%%disco --check values\nw += worker_id == 3", Divergence)).partition(":")[0]
    old = str(four.fail("%%disco --check values\nunrelated = 1", Divergence))
    assert f": no new differences; 'w' still differs as it did after {first}: float64" in old
    assert f"≠ w  value, as after {first}  [0-2]" in old
    new = str(four.fail("%%disco --check values\ny -= worker_id == 1", Divergence))
    assert "'y' differs: float64" in new
    assert ", and 1 more differs" in new
    assert new.index("≠ y") < new.index("≠ w  value, as after")
    four.run("%%disco --check values -w 0,2\nunrelated = 2")
    assert "≠ w  value, as after" in str(four.fail("%%disco --check values\nunrelated = 3", Divergence))
    changed = str(four.fail("%%disco --check values\nw *= 2; y[:] = 0", Divergence))
    assert "'w' differs: float64" in changed
    four.run("%%disco --check values\nw[:] = 0")
    again = str(four.fail("%%disco --check values\nw += worker_id == 3", Divergence))
    assert "'w' differs: float64" in again


def test_a_restart_forgets_what_differed(four):
    drift = "%%disco\nw = worker.replicated(np.zeros(2) + (worker_id == 3))"
    other = "%%disco --check values\nunrelated = 1"
    four.run(drift)
    four.fail(other, Divergence)
    assert "as it did after" in str(four.fail(other, Divergence))
    four.run("%disco restart")
    four.run(drift)
    assert "as it did after" not in str(four.fail(other, Divergence))


def test_what_the_cell_itself_has_bound_is_new_though_it_differed_so_before(four):
    drift = "%%disco --check values\nw = worker.replicated(np.zeros(2) + (worker_id == 3))"
    four.fail(drift, Divergence)
    assert "as it did after" not in str(four.fail(drift, Divergence))
