"""One run of a program on one worker: what a process would begin with, and what would end with it."""

from __future__ import annotations

import sys
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.per_worker import restore_settings, settings_now
from disco_magic.callers.tracebacks import steps_of, traceback_of
from disco_magic.core.registers import RegisterFile
from disco_magic.errors import WorkerInterrupt
from disco_magic.functions.execution.awaits import Shield
from disco_magic.functions.execution.bindings import MODULE, unreached
from disco_magic.isolation import (
    lasting,
    own_builtins,
    own_environment,
    own_exits,
    own_folders,
    own_imports,
    own_loggers,
    process_hooks,
    programs,
)
from disco_magic.isolation.own_modules import Importer
from disco_magic.isolation.own_streams import end_all
from disco_magic.isolation.pytorch.modes import modes_now, restore_modes
from disco_magic.isolation.pytorch.switches import end_switches, switches_now

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from disco_magic.functions.context import WorkerContext
    from disco_magic.functions.execution.awaits import Holder
    from disco_magic.isolation.own_streams import OwnStreams
    from disco_magic.isolation.programs import Program

OLDER: Final = "Left from an earlier run; this one stopped before assigning them"
"""Begins the note of an error that lists names left from an earlier run."""
_MOST: Final = 6
# Python has them for interactive use; IPython removes them while it executes a cell.
_EXITS = dict.fromkeys(("exit", "quit"), sys.exit)


class ProgramRun:
    """The environment of a worker's program, from `begin` to `end`; neither must be interrupted."""

    def __init__(self, worker: WorkerContext, program: Program, streams: OwnStreams) -> None:
        self.program = program
        self._worker = worker
        self._streams = streams
        self._streams_before: Mapping[str, Any] = streams.now
        self._functions, self._settings = own_builtins.now(worker), settings_now(worker)
        self._loggers, self._switches = own_loggers.loggers_now(worker), switches_now(worker, lasting=True)
        self._handlers = list[Any]()
        self._hooks = process_hooks.now()
        self._execution = programs.Execution(
            program, list(program.argv), own_environment.environment_of(worker)
        )

    def begin(self) -> None:
        """Set up the environment of the program."""
        behind = own_builtins.behind_of(self._worker)
        own_imports.program_begins(self._worker, behind)
        behind.update({name: ends for name, ends in _EXITS.items() if name not in behind})
        importer = behind.get("__import__")
        if isinstance(importer, Importer):
            importer.offer(_EXITS)
        programs.begin(self._worker, self._execution)

    def end(self) -> list[Any]:
        """Restore what was before; also for a run whose thread was given up, which will find it over.

        Returns the streams that have ended with the run, to be flushed when all else is restored.
        """
        if not programs.end(self._worker, self._execution):
            return []
        own_imports.program_ends(self._worker)
        behind = own_builtins.behind_of(self._worker)
        for name, ends in _EXITS.items():
            if behind.get(name) is ends:
                del behind[name]
        own_builtins.restore(self._worker, self._functions)
        process_hooks.give_back(self._worker, self._hooks)
        restore_settings(self._worker, self._settings)
        self._handlers = own_loggers.restore_loggers(self._worker, self._loggers)
        end_switches(self._worker, {**self._switches, **lasting.switches_of(self._worker)})
        own_folders.settle(self._worker)
        return self._streams.restore(self._streams_before)

    def execute(
        self, evaluate: Callable[[], object], namespace: dict[str, Any], holder: Holder | None
    ) -> None:
        """Execute the program, by `evaluate`, in the worker's namespace; `holder` injects into its thread.

        Raises whatever the program raises, except an exit with status 0.
        """
        shield, ended = Shield(holder), list[Any]()

        def executed() -> None:
            modes, watching = modes_now(), (sys.gettrace(), sys.getprofile())
            self.begin()
            try:
                # NumPy's and decimal's settings, which are context variables, end with its copy.
                shield.begun(copy_context().run, self._evaluated, evaluate, namespace)
            except SystemExit as done:
                if done.code not in (None, 0):
                    raise
            finally:
                ended.extend(self.end())
                restore_modes(modes)  # those that a program sets end with its process
                if (sys.gettrace(), sys.getprofile()) != watching:
                    sys.settrace(watching[0])
                    sys.setprofile(watching[1])
                lasting.set_variables(self._worker)

        try:
            shield.shut(executed)
        finally:
            own_loggers.close_all(self._handlers)
            end_all(ended)

    def _evaluated(self, evaluate: Callable[[], object], namespace: dict[str, Any]) -> None:
        before, failed = frozenset(namespace), []
        lasting.part_decimals()
        try:
            if self.program.package:  # here, where it can be the worker's own copy
                namespace["__builtins__"]["__import__"](self.program.package)
            evaluate()
        except WorkerInterrupt as struck:
            _tell_what_is_older(struck, namespace, before)
            self._call_exits()  # here, where another interrupt counts as one during cleanup
            raise
        except BaseException as error:  # noqa: BLE001 - raised below, after the exit functions
            _tell_what_is_older(error, namespace, before)
            failed.append(error)
        self._call_exits()
        for each in failed:
            raise each

    def _call_exits(self) -> None:
        """Call what the program has registered with `atexit`, as the end of a process does."""
        own_exits.call_all(self._execution)


def _tell_what_is_older(error: BaseException, namespace: dict[str, Any], before: frozenset[str]) -> None:
    """Note on the error which names that the program binds, but did not reach, are from an earlier run."""
    if isinstance(error, SystemExit):
        return
    for step in steps_of(traceback_of(error)):
        code = step.tb_frame.f_code
        if step.tb_frame.f_globals is namespace and code.co_name == MODULE:
            there = before.intersection(RegisterFile(namespace).public_names())
            names = sorted(there & unreached(code, step.tb_lasti))
            if names:
                more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
                error.add_note(f"{OLDER}: {', '.join(names[:_MOST])}{more}")
            return
