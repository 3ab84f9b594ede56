"""Executes a notebook and writes it back: ``python notebooks/write.py 02_debugging_registers.ipynb``.

What belongs to one run only is left out: versions, timestamps, file names of the kernel, and widgets, whose
kernel is gone when somebody opens the notebook; the stills beside them stay.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

CELL_LIMIT_S = 120
WIDGET = "application/vnd.jupyter.widget-view+json"


class KernelsOfTree(AsyncKernelManager):
    """Knows the Disco kernel as it lies in the tree, installed or not."""

    def _kernel_spec_manager_default(self) -> KernelSpecManager:
        specs = KernelSpecManager(parent=self)
        specs.kernel_dirs = [str(Path(__file__).parents[1] / "kernel"), *specs.kernel_dirs]
        return specs


def client_of(notebook: Any, folder: Path, **hooks: Any) -> NotebookClient:
    """Return what executes `notebook` in `folder`, in place."""
    return NotebookClient(
        notebook,
        kernel_manager_class=KernelsOfTree,
        timeout=CELL_LIMIT_S,
        store_widget_state=False,
        record_timing=False,
        coalesce_streams=True,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],  # not its warning that loopback TCP is unencrypted
        resources={"metadata": {"path": str(folder)}},
        **hooks,
    )


def write_back(notebook: Any, path: Path) -> None:
    """Save `notebook` without what is the writer's own."""
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if "outputs" in cell:
            cell["outputs"] = [_lasting(output) for output in cell["outputs"] if _lasts(output)]
    nbformat.write(notebook, path)


def _lasts(output: Any) -> bool:
    """Whether it is no widget, and not empty."""
    data = output.get("data")
    return data is None or (WIDGET not in data and any(data.values()))


def _lasting(output: Any) -> Any:
    if output.output_type == "error":
        output["evalue"] = re.sub(r'"[^"]*ipykernel_\d+[^"]*\.py"', '"<cell>"', output["evalue"])
    if output.output_type == "stream":  # a debugger says which file a line is in
        output["text"] = re.sub(r"/\S*ipykernel_\d+/\d+\.py", "<cell>", output["text"])
    if "text/html" in output.get("data", {}):
        output["data"]["text/html"] = re.sub(r"(disco-still)-\w+", r"\1", output["data"]["text/html"])
    return output


def main() -> None:
    """Execute the notebooks named on the command line and write them back."""
    parser = argparse.ArgumentParser(prog="write.py", description=__doc__)
    parser.add_argument("notebooks", nargs="+", help="names of files beside this one")
    folder = Path(__file__).parent
    for name in parser.parse_args().notebooks:
        notebook = nbformat.read(folder / name, as_version=4)
        client_of(notebook, folder).execute()
        write_back(notebook, folder / name)
        print(f"{name}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells")


if __name__ == "__main__":
    main()
