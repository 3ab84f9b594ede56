"""Keeps plain cells in IPython's history as Python, not as the call that sends them to the workers.

``%save``, ``%macro``, ``%history -t`` and ``In`` take cells from there as IPython has executed them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.callers.replaced import Replaced

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.notebook.shell import Shell


class PlainHistory:
    """A hook in the history of IPython's shell.

    Args:
        shell: IPython's shell; some that are derived from it have no history.
        written: returns a workers' cell as IPython would execute it: with magics as calls.
    """

    def __init__(self, shell: Shell, written: Callable[[str], str]) -> None:
        manager = getattr(shell, "history_manager", None)
        self._replaced = [] if manager is None else [Replaced(manager, "store_inputs", self._store)]
        self._written = written
        self._call = self._body = ""

    def install(self) -> None:
        """Install the hook."""
        for each in self._replaced:
            each.put()

    def remove(self) -> None:
        """Remove the hook; one installed over it meanwhile stays."""
        for each in self._replaced:
            each.take()

    def note(self, call: str, body: str) -> None:
        """Note that the next cell is executed as a `call`, a line of Python, which sends `body`."""
        self._call, self._body = call.rstrip(), body

    def _store(self, line_num: int, source: str, source_raw: str | None = None) -> None:
        call, self._call = self._call, ""
        if call and call in source:
            try:
                written = self._written(self._body)
            except Exception:  # noqa: BLE001 - as IPython does; who executes the cell says what is wrong with it
                written = self._body
            source = source.replace(call, written.strip("\n"))
        self._replaced[0].below(line_num, source, source_raw)
