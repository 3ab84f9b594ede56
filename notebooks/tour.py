"""Runs the quickstart notebook in a real Jupyter kernel and tells its results: what ``make tour`` calls.

With ``--write`` the notebook is written back with its outputs, without timestamps, versions and widget state.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbclient.exceptions import CellExecutionError
from write import client_of, write_back

NOTEBOOK = Path(__file__).with_name("01_quickstart.ipynb")
LEAST_ACCURACY = 0.95
LARGEST_DIFFERENCE = 1e-5

# Run after the last cell, in the notebook's own kernel: figures come from its variables, not from its text.
ASK = """
import json
found = {"accuracy": accuracies, "difference": float(difference), "held_out": len(test_y)}
print(json.dumps(found))
"""


@dataclass
class Paint:
    """Colours on a terminal, nothing elsewhere (a pipe, a log file, ``NO_COLOR``)."""

    on: bool = field(default_factory=lambda: sys.stdout.isatty() and "NO_COLOR" not in os.environ)

    def __call__(self, text: str, code: str) -> str:
        """Give `text` the colour `code` ("2" faint, "31" red, "32" green, "1" bold)."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.on else text


class Progress:
    """One line per code cell: begun with the cell (on a terminal), completed with its seconds."""

    def __init__(self, cells: list[Any], paint: Paint) -> None:
        self.paint = paint
        self.numbers: dict[int, int] = {}
        for index, cell in enumerate(cells):
            if cell.cell_type == "code":
                self.numbers[index] = len(self.numbers) + 1
        self.seconds: dict[int, float] = {}
        self._began = 0.0

    def started(self, cell: Any, cell_index: int) -> None:
        """Note the time and name the cell that runs now."""
        self._began = time.perf_counter()
        if cell_index in self.numbers and self.paint.on:
            sys.stdout.write(f"{self._line(cell, cell_index)} ...")
            sys.stdout.flush()

    def ended(self, cell: Any, cell_index: int, execute_reply: dict[str, Any]) -> None:
        """Complete the line of the cell."""
        self.seconds[cell_index] = time.perf_counter() - self._began
        if cell_index not in self.numbers:
            return
        failed = execute_reply["content"]["status"] == "error"
        note = "  an error, as it should be" if failed and is_tagged(cell, "raises-exception") else ""
        back = "\r" if self.paint.on else ""
        print(f"{back}{self._line(cell, cell_index)} {self.seconds[cell_index]:5.1f} s{note}", flush=True)

    def _line(self, cell: Any, index: int) -> str:
        number = f"{self.numbers[index]:3d}/{len(self.numbers)}"
        return f"{self.paint(number, '2')}  {headline(cell.source):44.44}"


@dataclass(frozen=True)
class Results:
    """What the notebook found."""

    accuracy: list[float]
    difference: float
    held_out: int
    training_s: float
    whole_s: float

    @property
    def accurate(self) -> bool:
        """Whether every worker is accurate enough, and all of them agree."""
        return min(self.accuracy) >= LEAST_ACCURACY and len(set(self.accuracy)) == 1

    @property
    def equal(self) -> bool:
        """Whether four workers learned what one learns."""
        return self.difference <= LARGEST_DIFFERENCE

    def show(self, paint: Paint) -> None:
        """Print the three lines everybody came for."""
        values = "  ".join(f"[{worker}] {value:.4f}" for worker, value in enumerate(self.accuracy))
        print(f"  accuracy   {values}   on {self.held_out} held-out images  {verdict(self.accurate, paint)}")
        print(
            f"  weights    equal to single-worker training to {LARGEST_DIFFERENCE:.0e} "
            f"(largest difference {self.difference:.1e})  {verdict(self.equal, paint)}"
        )
        print(f"  seconds    {self.training_s:.1f} for training, {self.whole_s:.1f} for the whole notebook")


def is_tagged(cell: Any, tag: str) -> bool:
    """Whether the notebook's author gave `cell` that tag."""
    return tag in cell.metadata.get("tags", [])


def headline(source: str) -> str:
    """Return the line of a cell that tells it from the others."""
    lines = [line for line in source.splitlines() if line and not line.startswith("import ")]
    return " / ".join(lines[:2]) if lines and lines[0].startswith("%") else (lines or [""])[0]


def verdict(good: bool, paint: Paint) -> str:  # noqa: FBT001 - it is the one thing it is about
    """Say it in a word."""
    return paint("ok", "32") if good else paint("NOT AS EXPECTED", "31")


def execute(notebook: Any, paint: Paint) -> Results:
    """Run all cells of `notebook` in a fresh kernel, in place; `CellExecutionError` at the first failure."""
    progress = Progress(notebook.cells, paint)
    question = nbformat.v4.new_code_cell(ASK)
    notebook.cells.append(question)
    hooks = {"on_cell_start": progress.started, "on_cell_executed": progress.ended}
    client = client_of(notebook, NOTEBOOK.parent, **hooks)
    began = time.perf_counter()
    try:
        client.execute()
    finally:
        notebook.cells.remove(question)
    training = [index for index, cell in enumerate(notebook.cells) if is_tagged(cell, "training")]
    return Results(
        **json.loads(question.outputs[0]["text"]),
        training_s=sum(progress.seconds[index] for index in training),
        whole_s=time.perf_counter() - began,
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the tour; the exit status is 0 when every result is as it should be."""
    parser = argparse.ArgumentParser(prog="tour.py", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the notebook back with its outputs")
    options = parser.parse_args(arguments)
    paint = Paint()
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    print(
        paint(f"notebooks/{NOTEBOOK.name}", "1"),
        "in a Jupyter kernel on",
        os.cpu_count(),
        "cores",
        flush=True,
    )
    try:
        results = execute(notebook, paint)
    except CellExecutionError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    print(paint("Results", "1"))
    results.show(paint)
    if options.write:
        write_back(notebook, NOTEBOOK)
    else:
        print(f"See it yourself: {paint('make lab', '1')}")
    return 0 if results.accurate and results.equal else 1


if __name__ == "__main__":
    sys.exit(main())
