"""Functions that a program registers with `atexit`: called on the worker that did so, when the program ends.

Only those that the user's code registers. What a library registers concerns the process, which goes on:
`weakref` ends all finalizers of the process, `multiprocessing` its processes.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

from disco_magic.callers.current import calling_worker
from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.errors import WorkerInterrupt
from disco_magic.isolation.programs import Exit, execution_of
from disco_magic.libraries import is_of_library

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.isolation.programs import Execution


def fit_atexit(module: ModuleType) -> Callable[[], None]:
    """Let programs on workers register functions to be called at their end; `module` is ``atexit``."""

    @replacing(module, "register")
    def register(func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        execution = _of_caller(sys._getframe(1).f_code.co_filename)  # noqa: SLF001 - the caller's file
        if execution is None or not callable(func):
            return register.below(func, *args, **kwargs)  # type: ignore[no-any-return]
        execution.exits.append(Exit(func, args, kwargs))
        return func

    @replacing(module, "unregister")
    def unregister(func: Callable[..., Any], /) -> None:
        execution = _of_caller(sys._getframe(1).f_code.co_filename)  # noqa: SLF001 - as above
        if execution is not None:
            execution.exits[:] = [each for each in execution.exits if each.function != func]
        unregister.below(func)

    return replace_all([register, unregister])


def _of_caller(filename: str) -> Execution | None:
    """The program of the calling worker, if that file is the user's; else None."""
    me = calling_worker()
    return None if me is None or is_of_library(filename) else execution_of(me)


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
