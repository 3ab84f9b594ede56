"""`docs/faults.md` has the cases of the matrix and no others, with figures; only its times may be old."""

from __future__ import annotations

import re

import pytest

from tests.faults.kinds import KINDS
from tests.faults.matrix import MOMENTS, RULES, STAGES, Case, all_cases, combinations, reason_against
from tests.faults.page import PAGE, render, without_figures


def test_the_page_has_the_cases_of_the_all_cases():
    # Times apart it is what the matrix gives: python -m tests.faults --write
    assert without_figures(PAGE.read_text(encoding="utf-8")) == without_figures(render({}, "Measured now."))


def test_the_page_has_a_time_for_everything_that_was_tried():
    page = PAGE.read_text(encoding="utf-8")
    entries = re.findall(r"\d+ · ([\d.]+)", page)
    columns = len({(case.stage, case.moment) for case in all_cases()}) + len(MOMENTS)
    assert len(entries) == columns
    assert all(float(entry) > 0 for entry in entries)
    assert re.search(r"^Measured \d{4}-\d\d-\d\d with Python .* cores, ", page, re.MULTILINE)


def test_a_case_that_is_new_or_gone_makes_the_page_old(monkeypatch):
    before = without_figures(render({}, "Measured now."))
    monkeypatch.setattr(STAGES["cell"], "ways", ("exception",))
    assert without_figures(render({}, "Measured now.")) != before


def test_times_do_not_make_the_page_old():
    case, *_ = all_cases()
    assert without_figures(render({case: 0.5}, "Measured then.")) == without_figures(
        render({}, "Measured now.")
    )


@pytest.mark.parametrize("reason", RULES)
def test_every_rule_leaves_something_out(reason):
    assert any(reason_against(case) == reason for case in combinations(KINDS["threads"]))


def test_every_stage_is_tried_at_every_moment_unless_a_rule_says_why_not():
    tried = {(case.stage, case.moment) for case in all_cases()}
    left = {(stage, moment) for stage in STAGES for moment in MOMENTS} - tried
    assert left == {
        ("copy of a result", "idle"),
        ("copy on the controller", "exit"),
        *((name, "two wait") for name, stage in STAGES.items() if stage.has_handle),
    }


def test_names_of_cases_differ():
    names = [str(case) for case in all_cases()]
    assert len(set(names)) == len(names)
    assert str(Case("cell", "memory", "worker 0", "idle")) in names
