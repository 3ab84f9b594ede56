"""A person steps through a cell of two workers in JupyterLab, and gives up half-way."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("playwright", reason="the browser tests need playwright")

from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Locator

pytestmark = pytest.mark.unmeasured  # what is tested runs in kernels, which are not measured
START = "%load_ext disco_magic\n%disco start -n 2"
STEPPED = """%%disco
x = np.full(2, worker_id + 1.0)
breakpoint()
y = allreduce(x)
y.sum().item()"""
CELLS = [START, STEPPED, STEPPED, STEPPED]
PROMPT = re.compile(r"\[(\d)\] ipdb>")


def _answer(lab: Any, cell: Locator, line: str) -> int:
    """Type into the one box that is open; whose it was."""
    box = cell.locator(".jp-Stdin-input")
    expect(box).to_have_count(1)
    label = cell.locator(".jp-Stdin-prompt")
    expect(label).to_have_text(PROMPT)
    worker = int(PROMPT.search(label.inner_text())[1])
    handle = box.element_handle()
    box.fill(line)
    box.press("Enter")
    lab.page.wait_for_function("box => !box.isConnected", arg=handle)
    return worker


@pytest.mark.usefixtures("tall")
def test_every_worker_is_asked_in_the_cell_s_output_until_all_have_stepped_over_the_collective(
    begun_notebook: Callable[..., Any], pictures: Path
) -> None:
    lab = begun_notebook("debugging.ipynb", CELLS)
    lab.begin(1)
    cell = lab.cell(1)
    expect(cell.locator(".jp-Stdin-input")).to_have_count(1)
    lab.picture(pictures / "debugging.png")
    asked = [_answer(lab, cell, line) for line in ["n", "n", "n", "n", "c", "c"]]
    expect(cell.locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"))
    assert sorted(asked) == [0, 0, 0, 1, 1, 1]
    assert set(asked[:2]) == {0, 1}
    text = lab.text(1)
    assert text.index("----> 3 breakpoint()") < text.index("ipdb>")
    assert "[0-1] 6.0" in text


@pytest.mark.usefixtures("tall")
def test_the_stop_button_ends_the_cell_and_the_next_one_can_be_debugged(
    begun_notebook: Callable[..., Any], pictures: Path
) -> None:
    lab = begun_notebook("debugging.ipynb", CELLS)
    lab.begin(2)
    _answer(lab, lab.cell(2), "n")
    expect(lab.cell(2).locator(".jp-Stdin-input")).to_have_count(1)
    lab.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:interrupt-kernel'); return 1; }")
    expect(lab.cell(2).locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"))
    expect(lab.cell(2)).to_contain_text("was stopped on workers [0-1]")
    lab.begin(3)
    for _ in range(2):
        _answer(lab, lab.cell(3), "c")
    expect(lab.cell(3).locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"))
    lab.picture(pictures / "stopped.png")
    expect(lab.cell(3)).to_contain_text("[0-1] 6.0")
