"""Notebooks that are committed: with ordered output they are the same every time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings

import pytest

from tests.kernels import ROOT

CELLS = """
%load_ext disco_magic
%disco start -n 4

%%disco
import sys
for i in range(9):
    print(i)
    print(i, file=sys.stderr)
worker_id

%%disco
class Pixel:
    def __repr__(self): return "pixel"
    def _repr_png_(self): return bytes([worker_id])
    def _repr_html_(self): return f"<b>{worker_id}</b>" if self.rich else None
for Pixel.rich in True, False, False:
    display(Pixel())
    print("behind")
display(Pixel())

%%disco
if worker_id == 3: raise ValueError("three")
if worker_id == 1: raise KeyError("one")

%%disco --check types
worker_id // 2
"""


def executed():
    """The outputs of a notebook of `CELLS`, as a file has them."""
    import nbformat
    from nbclient import NotebookClient

    sources = CELLS.strip().split("\n\n")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jupyter_client warns about its own defaults
        NotebookClient(
            notebook,
            timeout=60,
            allow_errors=True,
            record_timing=False,
            store_widget_state=False,
            extra_arguments=["--IPKernelApp.log_level=ERROR"],
        ).execute()
    text = json.dumps([cell.outputs for cell in notebook.cells], sort_keys=True)
    return re.sub(r"ipykernel_\d+", "ipykernel", text)


def test_an_ordered_notebook_is_the_same_byte_for_byte_however_busy_the_machine_is(monkeypatch):
    for package in ("nbclient", "nbformat"):
        pytest.importorskip(package, reason="the extra 'test' has it")
    monkeypatch.setenv("DISCO_OUTPUT", "ordered")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))))
    quiet = executed()
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        loaded = executed()
    finally:
        busy.kill()
        busy.wait()
    assert loaded == quiet
    assert quiet.count("[3] 8") == 2
