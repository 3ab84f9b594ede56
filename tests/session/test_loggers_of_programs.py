"""What a program sets up of `logging` ends with it."""

from __future__ import annotations

import logging

import pytest

from disco_magic.errors import CellError

NAME = "demo.of_programs"
CONFIGURES = """
import logging, os, sys
level, name = sys.argv[1:]
logging.basicConfig(level=level, filename=f"{name}.{os.environ['RANK']}.log", format="%(message)s")
logging.debug("debug")
logging.info("info")
"""
ADDS = f"""
import logging, sys
log = logging.getLogger({NAME!r})
log.setLevel("INFO")
log.propagate = False
log.addHandler(logging.StreamHandler(sys.stdout))
log.info("step")
"""


@pytest.fixture
def run(session, tmp_path, monkeypatch):
    """Executes a source as a program of two workers, and returns what each has printed."""
    monkeypatch.chdir(tmp_path)
    s = session(2)

    def execute(source, *arguments, **options):
        (tmp_path / "train.py").write_text(source)
        return list(s.run_file("train.py", *arguments, **options).stdout.values())

    execute.session = s
    return execute


def test_each_program_configures_its_own_file_and_level(run, tmp_path, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    run(CONFIGURES, "INFO", "one")
    run(CONFIGURES, "DEBUG", "two")
    texts = {each.name: each.read_text() for each in tmp_path.glob("*.log")}
    assert texts == {f"one.{rank}.log": "info\n" for rank in range(2)} | {
        f"two.{rank}.log": "debug\ninfo\n" for rank in range(2)
    }


def test_lines_are_not_doubled_by_a_second_run(run):
    assert [run(ADDS) for _ in range(3)] == [["step\n", "step\n"]] * 3


@pytest.mark.parametrize("ends", ["", "sys.exit()", "1 / 0"])
def test_cells_after_it_log_as_before(run, ends):
    s = run.session
    s.run(
        "import logging\n"
        f"log = logging.getLogger({NAME!r})\nkept, hs = logging.NullHandler(), log.handlers\n"
        "log.addHandler(kept); log.setLevel('ERROR')"
    )
    try:
        run(f"{ADDS}log.disabled = True\nlog.addFilter(str)\nlogging.disable()\n{ends}\n")
    except CellError:
        assert ends
    seen = "log.handlers == [kept] == hs, log.level, log.propagate, log.disabled, log.filters"
    assert s.run(f"{seen}, log.isEnabledFor(50)").values == [(True, 40, True, False, [], True)] * 2


def test_its_handlers_are_closed_and_others_are_not(run):
    s = run.session
    closing = "class Told(logging.NullHandler):\n    def close(self): told.append(self.name)\n"
    s.run(f"import logging\ntold = []\n{closing}old = Told()\nold.name = 'old'")
    s.run(f"logging.getLogger({NAME!r}).addHandler(old)")
    run(f"new = Told()\nnew.name = 'new'\nlogging.getLogger({NAME!r}).handlers += [new]\nnow = list(told)\n")
    assert s.run("now, told").values == [([], ["new"])] * 2


def test_what_its_modules_set_up_when_imported_is_there_in_a_second_run(run, module_of):
    # They are not executed again.
    name = module_of(ADDS)
    source = f"import logging, {name}\nlogging.getLogger({NAME!r}).info('run')\n"
    assert [run(source) for _ in range(3)] == [["step\nrun\n"] * 2, ["run\n"] * 2, ["run\n"] * 2]
    adding = f"logging.getLogger({NAME!r}).addHandler(logging.NullHandler())\n"
    run(f"{source}{adding}")
    assert run.session.run(f"len(logging.getLogger({NAME!r}).handlers)").values == [1, 1]


def test_what_cells_set_after_its_modules_did_is_there_after_a_second_run(run, module_of):
    name = module_of(f"import logging\nlogging.getLogger({NAME!r}).setLevel('DEBUG')\n")
    s, level = run.session, f"logging.getLogger({NAME!r}).level"
    run(f"import {name}\n")
    s.run(f"import logging\nlogging.getLogger({NAME!r}).setLevel('ERROR')")
    run(f"import logging, {name}\nassert {level} == 40\nlogging.getLogger({NAME!r}).setLevel('INFO')\n")
    assert s.run(level).values == [40, 40]
