"""PyTorch's compiler: what it is not to look into, and which names of cells are constants for it.

It follows calls into whatever is written in Python, and so through a collective down to locks and clocks:
seconds of it, and warnings. Left out, a collective ends one graph, and another one begins behind it.
And it takes what it finds among the builtins for functions or for the few constants that Python has there;
those of cells have ``worker_id`` and ``np``, too.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

_PACKAGE: Final = "disco_magic"
# Python has one object for each of these: numbers of workers are told by what they are.
_SMALL: Final = range(257)


def clear_names(namespace: MutableMapping[str, Any]) -> None:
    """Empty a namespace, but for what the compiler has put there: it takes that out itself.

    When it forgets a function; what it does not find then is an error, which Python writes to stderr.
    """
    utils = sys.modules.get("torch._dynamo.utils")
    manager = getattr(getattr(utils, "CleanupManager", None), "instance", None)
    hooks = [hook for each in list(getattr(manager, "values", {}).values()) for hook in each]
    kept = {hook.name for hook in hooks if hook.scope is namespace}
    for name in namespace.keys() - kept:
        namespace.pop(name, None)


def fit_compiler(rules: Any) -> Callable[[], None]:
    """Change ``torch._dynamo.trace_rules``; returns what undoes it."""
    constants = rules._builtin_constant_ids  # noqa: SLF001 - nothing public lets one add to them
    known = {id(each) for each in (*_SMALL, np)}
    added = {each for each in known if each not in constants()}
    before = list(rules.SKIP_DIRS)
    rules.add(_PACKAGE)
    for each in added:
        constants.add(each)

    def undo() -> None:
        for each in added:
            constants.remove(each)
        rules.SKIP_DIRS[:] = [each for each in rules.SKIP_DIRS if each in before]
        rules._recompile_re()  # noqa: SLF001

    return undo
