"""Functions that a program registers with `atexit`: called on the worker that did so, when the program ends.

Only those that the user's code registers: what a library registers concerns the process, which goes on
(`weakref` ends all finalizers of the process, `multiprocessing` its processes).
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

from disco_magic.callers.current import calling_worker
from disco_magic.callers.replaced import in_place_of
from disco_magic.errors import WorkerInterrupt
from disco_magic.isolation.programs import Exit, execution_of
from disco_magic.libraries import is_of_library

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.isolation.programs import Execution


@in_place_of("register")
def fit_register(below: Any, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Let programs on workers register functions to be called at their end; in ``atexit``."""
    execution = _of_caller()
    if execution is None or not callable(func):
        return below(func, *args, **kwargs)
    execution.exits.append(Exit(func, args, kwargs))
    return func


@in_place_of("unregister")
def fit_unregister(below: Any, func: Callable[..., Any], /) -> None:
    """Let them take it back; in ``atexit``."""
    execution = _of_caller()
    if execution is not None:
        execution.exits[:] = [each for each in execution.exits if each.function != func]
    below(func)


def _of_caller() -> Execution | None:
    """The program of the calling worker, if a file of the user's calls one of these; else None."""
    me = calling_worker()
    file = sys._getframe(3).f_code.co_filename  # noqa: SLF001 - above the replacement
    return None if me is None or is_of_library(file) else execution_of(me)


def call_all(execution: Execution) -> None:
    """Call the registered functions, last one first; show what one raises and go on, as Python does."""
    while execution.exits:
        each = execution.exits.pop()
        try:
            each.function(*each.args, **each.options)
        except WorkerInterrupt:
            raise
        except SystemExit:
            pass  # the program is ending anyway
        except BaseException:  # noqa: BLE001 - whatever the user's function raises
            sys.stderr.write("Exception ignored in atexit callback:\n")
            traceback.print_exc()
