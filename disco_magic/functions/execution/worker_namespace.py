"""The namespace of a worker's cells: made with everything that lives behind it, and dropped with the worker.

The module ``__disco__`` represents each of them (`namespaces.py`), so that classes and functions that a cell
defines can be pickled and inspected. `np`, `worker`, the collectives and what the front end adds live
*behind* a namespace, in its ``__builtins__``: cells see them without import, they are no registers, and a
cell may bind the same name without harm.
"""

from __future__ import annotations

import _sitebuiltins
import builtins
import sys
import types
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.callers import namespaces
from disco_magic.functions.context import VERBS
from disco_magic.functions.execution.changes import CHANGES
from disco_magic.isolation import (
    own_builtins,
    own_imports,
    own_loggers,
    process_hooks,
    programs,
)
from disco_magic.isolation.pytorch.hooks import leave_hooks
from disco_magic.isolation.pytorch.losses import leave_losses
from disco_magic.isolation.pytorch.switches import end_switches
from disco_magic.isolation.whole_print import whole_print

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disco_magic.functions.context import WorkerContext


class _Ends(_sitebuiltins.Quitter):
    """Python's ``exit`` without what it does to the process: it closes standard input."""

    __call__ = sys.exit  # type: ignore[assignment]  # C code, which leaves no line of ours in tracebacks


def new_namespace(context: WorkerContext, extras: Mapping[str, Any]) -> dict[str, Any]:
    """Create the namespace of a worker's cells, with everything that lives behind it."""
    behind = dict(vars(builtins)) | own_builtins.of_process()
    behind.update({verb: getattr(context, verb) for verb in VERBS})
    behind.update(np=np, xp=context.xp, worker=context)
    behind["__spec__"] = None  # a script has none; this would be that of `builtins`
    if isinstance(behind["print"], types.BuiltinFunctionType):  # a program may have put its own there
        behind["print"] = whole_print
    enders = {name: behind[name] for name in ("exit", "quit") if name in behind}
    behind.update({name: _Ends(name, getattr(each, "eof", "")) for name, each in enders.items()})
    behind.update(worker_id=context.id, num_workers=context.num_workers)
    behind.update(extras)
    namespace = namespaces.add(context.session_id, context.id)
    try:
        namespace["__builtins__"] = behind
        context.marks.namespace = namespace
        CHANGES.enter(context)
    except BaseException:  # Ctrl-C
        drop_namespace(context, namespace)
        raise
    return namespace


def drop_namespace(context: WorkerContext, namespace: Mapping[str, Any]) -> None:
    """Forget a namespace; values in it live as long as something else refers to them."""
    programs.end(context)
    process_hooks.give_back(context)
    namespaces.drop(context.session_id, context.id, namespace)
    own_imports.end(context)
    own_loggers.end(context)
    own_builtins.leave(context)
    end_switches(context, {})
    leave_hooks(context)
    leave_losses(context)
    CHANGES.leave(context)
