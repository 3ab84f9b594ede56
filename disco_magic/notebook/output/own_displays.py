"""Displays that several workers show under the same name, ``display_id="progress"``: each updates its own."""

from __future__ import annotations

import re
from typing import Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.per_worker import PerWorker
from disco_magic.notebook.output.arrange import display_id

# By the name that the worker's code has given, the one that front ends get: also in later cells.
_OWN: Final[PerWorker[dict[str, str]]] = PerWorker(dict)
# What IPython makes up is different on all workers anyway.
_MADE_UP: Final = re.compile(r"[0-9a-f]{32}")


def with_own_id(kwargs: dict[str, Any], *, among_others: bool) -> dict[str, Any]:
    """The options of a worker's display or update, with a name that is the worker's own.

    Displays that the worker has not made itself, such as the notebook's, keep their names, so that it can
    update them; and so do those of cells of one worker, which the notebook can update.
    """
    me, said = calling_worker(), display_id(kwargs)
    if me is None or type(said) is not str or _MADE_UP.fullmatch(said):
        return kwargs
    own = _OWN.of(me)
    if not kwargs.get("update"):
        own[said] = f"{said} of worker {me.id} of session {me.session_id}" if among_others else said
    if said not in own:
        return kwargs
    return {**kwargs, "transient": {**kwargs["transient"], "display_id": own[said]}}
