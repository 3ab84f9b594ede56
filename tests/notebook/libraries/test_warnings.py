"""Warnings of workers: shown once per cell and worker; filters of each worker's own, in a notebook."""

from __future__ import annotations

import sys
import warnings

import pytest

from disco_magic.notebook.libraries.warned import Filters

APART = pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python's own, see `own_warnings`")
IMPORTED = "import warnings\n"


@pytest.fixture
def heard(four):
    """A shell of four workers; ``heard(cell)`` gives the lines of stderr that show a warning."""

    def show(*warning):
        sys.stderr.write(warnings.formatwarning(*warning[:4]))

    with warnings.catch_warnings():
        warnings.showwarning = show  # pytest's own way is to keep them
        warnings.resetwarnings()
        warnings.filterwarnings("default", category=DeprecationWarning, module="__main__")
        warnings.filterwarnings("ignore", category=DeprecationWarning, append=True)

        def run(source, option=""):
            four.run(f"%%disco {option}\n{IMPORTED}{source}")
            lines = four.err.splitlines()
            return sorted(line for line in lines if "Warning: " in line)

        run.shell = four
        yield run


def messages(lines):
    return [line[:4] + line.partition("Warning: ")[2] for line in lines]


def test_a_cell_warns_of_the_same_line_once_and_the_next_cell_warns_again(heard):
    for _ in range(2):
        lines = heard("for i in range(3): warnings.warn('careful')")
        assert messages(lines) == [f"[{worker}] careful" for worker in range(4)]


def test_deprecations_are_shown_in_cells_where_the_notebook_shows_its_own(heard):
    old = "def old(): warnings.warn('old', DeprecationWarning, stacklevel=2)\nold()"
    assert messages(heard(old, "-w 0")) == ["[0] old"]
    warnings.simplefilter("ignore")
    assert heard(old, "-w 0") == []
    warnings.resetwarnings()
    warnings.simplefilter("ignore", DeprecationWarning)
    assert heard(old, "-w 0") == []


def test_unloading_takes_out_the_filter(heard):
    before = list(warnings.filters)
    heard("pass")
    assert len(warnings.filters) == len(before) + 1
    heard.shell.run("%unload_ext disco_magic")
    assert list(warnings.filters) == before


def test_a_filter_that_a_cell_adds_stays(heard):
    heard("warnings.filterwarnings('ignore', message='careful')")
    assert heard("warnings.warn('careful')") == []


# --- several workers inside at once ----------------------------------------------------------------

OVERLAP = (
    "with warnings.catch_warnings():\n"
    "    barrier()\n"
    "    warnings.simplefilter('ignore')\n"
    "    if worker_id: barrier()\n"
    "if not worker_id: barrier()\n"
)


@APART
def test_workers_that_enter_and_leave_in_any_order_leave_the_filters_as_they_were(heard):
    heard("pass")
    before, filters = warnings.filters, list(warnings.filters)
    heard(OVERLAP)
    assert warnings.filters is before
    assert filters == before
    assert len(heard("warnings.warn('careful')")) == 4


@APART
def test_every_worker_records_its_own_warnings_and_only_those(heard):
    lines = heard(
        "if worker_id == 3:\n    barrier()\n    warnings.warn('shown')\n    barrier()\n"
        "else:\n"
        "    with warnings.catch_warnings(record=True) as outer:\n"
        "        warnings.simplefilter('always')\n"
        "        with warnings.catch_warnings(record=True) as inner:\n"
        "            barrier()\n"
        "            for _ in range(2): warnings.warn(f'of {worker_id}')\n"
        "            barrier()\n"
        "        warnings.warn('outer')\n"
        "    assert [str(each.message) for each in inner] == [f'of {worker_id}'] * 2\n"
        "    assert [str(each.message) for each in outer] == ['outer']"
    )
    assert messages(lines) == ["[3] shown"]


@APART
@pytest.mark.parametrize("public", [True, False])
def test_who_records_takes_no_warnings_from_who_does_not(heard, monkeypatch, public):
    told = []
    if public:
        monkeypatch.setattr(warnings, "showwarning", lambda message, *_: told.append(str(message)))
    else:
        monkeypatch.setattr(warnings, "showwarning", warnings._showwarning_orig)
        monkeypatch.setattr(warnings, "_showwarnmsg_impl", lambda told_: told.append(str(told_.message)))
    heard(
        "if worker_id == 0:\n    barrier()\n    warnings.warn('shown')\n    barrier()\n"
        "else:\n    with warnings.catch_warnings(record=True):\n        barrier()\n        barrier()"
    )
    assert told == ["shown"]


@APART
def test_an_action_given_at_once_holds_inside(heard):
    assert heard("with warnings.catch_warnings(action='ignore'): warnings.warn('careful')", "-w 0") == []


@APART
def test_who_never_leaves_stays_inside_and_nobody_else(heard):
    heard("pass")
    before = warnings.filters
    heard("inside = warnings.catch_warnings(record=True)\ninside.__enter__()", "-w 1")
    assert warnings.filters is before
    assert messages(heard("warnings.warn('careful')")) == [f"[{worker}] careful" for worker in (0, 2, 3)]
    heard("inside.__exit__()", "-w 1")
    assert len(heard("warnings.warn('careful')")) == 4


@APART
def test_entering_twice_is_refused_as_ever(heard):
    error = heard.shell.fail(
        "%%disco\nimport warnings\ncatcher = warnings.catch_warnings()\n"
        "with catcher:\n    catcher.__enter__()"
    )
    assert "Cannot enter catch_warnings() twice" in str(error)
    assert "without entering" in str(heard.shell.fail("%%disco\nwarnings.catch_warnings().__exit__()"))


@APART
def test_the_notebook_may_be_inside_before_and_after(heard):
    heard("pass")
    before = warnings.filters
    with warnings.catch_warnings():
        inside = warnings.filters
        heard(OVERLAP)
        assert warnings.filters is inside
    assert warnings.filters is before


@APART
def test_the_notebook_may_be_inside_when_a_cell_is_sent_and_not_when_it_ends(heard):
    heard("pass")
    before = warnings.filters
    with warnings.catch_warnings():
        heard.shell.run("%%disco --nowait -o h\npass")
    heard.shell.run("h.wait()")
    heard.shell.run("pass")
    assert warnings.filters is before


def test_a_module_that_is_not_python_s_is_caught_as_ever(heard):
    heard(
        "import types\n"
        "other = types.ModuleType('other')\n"
        "for name in dir(warnings):\n"
        "    if name[:2] != '__': setattr(other, name, getattr(warnings, name))\n"
        "with warnings.catch_warnings(module=other):\n"
        "    assert other.filters is not warnings.filters",
        "-w 0",
    )


# --- what is mixed up all the same -----------------------------------------------------------------


def test_filters_that_were_replaced_are_put_back_and_so_is_how_warnings_are_shown(monkeypatch):
    with warnings.catch_warnings():
        filters = Filters()
        filters.keep()
        before = warnings.filters, warnings.showwarning, warnings._showwarnmsg_impl
        monkeypatch.setattr(warnings, "filters", [])
        monkeypatch.setattr(warnings, "_showwarnmsg_impl", [].append)
        filters.keep()
        filters.restore()
        assert (warnings.filters, warnings.showwarning, warnings._showwarnmsg_impl) == before
        filters.restore()
        filters.keep()
        monkeypatch.setattr(warnings, "filters", [])
        monkeypatch.setattr(warnings, "showwarning", print)
        filters.restore()
        assert warnings.showwarning is print
        filters.remove()
        filters.remove()
