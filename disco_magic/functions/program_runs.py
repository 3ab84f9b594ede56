"""One run of a program on one worker: what a process would begin with, and what would end with it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from disco_magic.functions import own_builtins, own_exits, own_imports, programs
from disco_magic.functions.own_modules import Importer
from disco_magic.functions.per_worker import restore_settings, settings_now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disco_magic.functions.cells import Program
    from disco_magic.functions.context import WorkerContext
    from disco_magic.functions.own_streams import OwnStreams

# Python has them for who types; IPython takes them away while it executes a cell.
_EXITS = dict.fromkeys(("exit", "quit"), sys.exit)


class ProgramRun:
    """What a worker's program finds, from `begin` to `end`; neither must be interrupted.

    Args:
        worker: which.
        program: what it executes.
        streams: the worker's, of which those that the program puts there end with it.
    """

    def __init__(self, worker: WorkerContext, program: Program, streams: OwnStreams) -> None:
        self.program = program
        self._worker = worker
        self._streams = streams
        self._streams_before: Mapping[str, Any] = streams.now
        self._functions, self._settings = own_builtins.now(worker), settings_now(worker)
        self._execution = programs.Execution(program, list(program.argv), programs.ranks_of(worker))

    def begin(self) -> None:
        """From now on it is so."""
        behind = own_builtins.behind_of(self._worker)
        own_imports.program_begins(self._worker, behind)
        behind.update({name: ends for name, ends in _EXITS.items() if name not in behind})
        importer = behind.get("__import__")
        if isinstance(importer, Importer):
            importer.offer(_EXITS)
        programs.begin(self._worker, self._execution)

    def end(self) -> list[Any]:
        """No more; also of one whose thread was given up, which will find it over.

        Returns the streams that have ended with it, to be flushed when nothing else is to be put back.
        """
        if not programs.end(self._worker, self._execution):
            return []
        behind = own_builtins.behind_of(self._worker)
        for name, ends in _EXITS.items():
            if behind.get(name) is ends:
                del behind[name]
        own_builtins.restore(self._worker, self._functions)
        restore_settings(self._worker, self._settings)
        return self._streams.restore(self._streams_before)

    def call_exits(self) -> None:
        """Call what it has registered with `atexit`, as the end of a process does."""
        own_exits.call_all(self._execution)
