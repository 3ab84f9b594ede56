"""What a program registers with `atexit`: called when the program ends, on the worker that has registered it.

Of code of the user's only. What a library registers is about the process, which goes on: `weakref` ends all
finalizers of the process, `multiprocessing` its processes.
"""

from __future__ import annotations

import sys
import traceback
from functools import wraps
from typing import TYPE_CHECKING, Any

from disco_magic.callers.current import calling_worker
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.errors import WorkerInterrupt
from disco_magic.isolation.programs import Exit, execution_of
from disco_magic.libraries import is_of_library

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.isolation.programs import Execution


def fit_atexit(module: ModuleType) -> Callable[[], None]:
    """Let programs of workers register what they call at their end; `module` is ``atexit``."""

    @wraps(vars(module)["register"])
    def register(func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        execution = _of_caller(sys._getframe(1).f_code.co_filename)  # noqa: SLF001 - whose code this is
        if execution is None or not callable(func):
            return registered.below(func, *args, **kwargs)  # type: ignore[no-any-return]
        execution.exits.append(Exit(func, args, kwargs))
        return func

    @wraps(vars(module)["unregister"])
    def unregister(func: Callable[..., Any], /) -> None:
        execution = _of_caller(sys._getframe(1).f_code.co_filename)  # noqa: SLF001 - as above
        if execution is not None:
            execution.exits[:] = [each for each in execution.exits if each.function != func]
        unregistered.below(func)

    registered = Replaced(module, "register", register)
    unregistered = Replaced(module, "unregister", unregister)
    return replace_all([registered, unregistered])


def _of_caller(filename: str) -> Execution | None:
    """The program of the calling worker, if code of that file is the user's."""
    me = calling_worker()
    return None if me is None or is_of_library(filename) else execution_of(me)


def call_all(execution: Execution) -> None:
    """Call them, the last one first; what one raises is shown, and the others are called, as Python does it.

    Raises:
        WorkerInterrupt: one was interrupted; the others are left out.
    """
    while execution.exits:
        each = execution.exits.pop()
        try:
            each.function(*each.args, **each.options)
        except WorkerInterrupt:
            raise
        except SystemExit:
            pass  # it is ending
        except BaseException:  # noqa: BLE001 - whatever the user's own raises
            sys.stderr.write("Exception ignored in atexit callback:\n")
            traceback.print_exc()
