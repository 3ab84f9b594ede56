"""What ``make newer`` runs with Python 3.14 or 3.13 as well: tests of what depends on the interpreter.

A file belongs here if another version of Python, or of what its standard library does inside, could make it
fail: the names of the lists are the reasons. Rules of our own (state machines, planes, numbers, words) are
tested with one interpreter. ``python -m tests.newer`` prints the files.
"""

from __future__ import annotations

WHERE_THREADS_CAN_BE_STRUCK = """
    tests/session/test_blocking_finalizers.py tests/session/test_ctrl_c.py
    tests/session/test_ctrl_c_behind.py tests/session/test_interrupt.py tests/session/test_pending_awaited.py
    tests/session/test_pending_ctrl_c.py tests/session/test_recursion.py tests/session/test_refusing_lock.py
    tests/session/test_stuck_threads.py tests/test_locks.py tests/worker tests/notebook/test_interrupts.py
"""
WHAT_CODE_FRAMES_AND_TRACEBACKS_SAY = """
    tests/callers tests/core/test_errors.py tests/core/test_recorded.py tests/core/test_seat.py
    tests/functions/execution tests/session/test_cell_errors.py tests/session/test_compiled_names.py
    tests/session/test_operands.py tests/session/test_source_lines.py tests/session/test_where_in_modules.py
    tests/values/test_inside.py tests/values/test_operands.py tests/notebook/test_assigned.py
    tests/notebook/debugging/test_bindings.py tests/notebook/debugging/test_debugger.py
    tests/notebook/debugging/test_debugging.py tests/notebook/debugging/test_debugging_terminal.py
    tests/notebook/debugging/test_kept_failures.py tests/notebook/debugging/test_leaving_prompts.py
    tests/notebook/debugging/test_postmortem.py
"""
HOW_MODULES_ARE_IMPORTED = """
    tests/functions/modules/test_modules.py tests/functions/modules/test_python_modules.py
    tests/functions/test_installed.py tests/isolation tests/session/test_doctests.py
    tests/session/test_lazy_imports.py tests/session/test_main_module.py tests/session/test_own_classes.py
    tests/session/test_own_folders.py tests/session/test_own_modules.py tests/session/test_own_packages.py
    tests/session/test_reloading.py tests/notebook/test_own_modules.py tests/notebook/test_run_file.py
"""
WHAT_IS_COPIED_AND_PICKLED = """
    tests/core/test_snapshot.py tests/functions/test_copies.py tests/functions/test_marks.py
    tests/functions/test_returned.py tests/session/test_cell_classes.py tests/session/test_own_functions.py
    tests/values/test_documents.py tests/values/test_kinds.py tests/values/test_members.py
"""
WHAT_THE_STANDARD_LIBRARY_HAS_ONCE_PER_PROCESS = """
    tests/functions/test_context.py tests/functions/test_worker_builtins.py
    tests/session/test_builtins_of_all.py tests/session/test_forks.py tests/session/test_lifecycle.py
    tests/session/test_own_builtins.py tests/session/test_own_loggers.py tests/session/test_own_processes.py
"""
IPYTHON_S_SHELL_ON_TOP = """
    tests/notebook/test_cells.py tests/notebook/test_plain_cells.py tests/notebook/test_shown_errors.py
"""

REASONS = (
    WHERE_THREADS_CAN_BE_STRUCK,
    WHAT_CODE_FRAMES_AND_TRACEBACKS_SAY,
    HOW_MODULES_ARE_IMPORTED,
    WHAT_IS_COPIED_AND_PICKLED,
    WHAT_THE_STANDARD_LIBRARY_HAS_ONCE_PER_PROCESS,
    IPYTHON_S_SHELL_ON_TOP,
)

if __name__ == "__main__":
    print(*(path for paths in REASONS for path in paths.split()))
