"""PyTorch operators that workers define with `torch.library.custom_op`: each worker's own.

PyTorch's table of operators is the process's. If threads define the same operator, each destroys what the
others have defined, even while they do so, which may crash the process. So there is one entry, defined once,
which calls the functions of its caller::

    worker 0   custom_op("ns::f")(f0)     defines ns::f
    worker 1   custom_op("ns::f")(f1)     with the same schema: another handle of it, for functions of its own
    worker 1   torch.ops.ns.f(x)          dispatcher -> the entry's function -> that of the caller, f1

With another schema PyTorch would destroy the definition while others may be calling it. As long as others
have it, the new one is an entry of its own (``ns::f__2``), to which ``torch.ops.ns.f`` refers from then on;
handles of the old one stay valid. What the body of a shared module defines is the process's, whichever worker
imports it. A caller that has not defined an operator, such as a thread of no worker, calls the process's,
else that of a worker that has; but gradients come from the worker that called it forward, whichever thread
computes them.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import ref

from disco_magic.callers.current import calling_worker
from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.isolation.pytorch.entries import LOCK, Entry, Owners, become_entry, is_of_shared_module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from disco_magic.callers.current import CallingWorker


def fit_operators(module: Any) -> Callable[[], None]:
    """Change ``torch._library.custom_ops``; return what undoes it."""
    definitions, base = module.OPDEFS, module.CustomOpDef
    entry_class = type(base.__name__, (Entry, base), {"__module__": base.__module__})
    versions: dict[str, list[ref[Any]]] = {}

    @replacing(base, "__init__")
    def define(
        self: Any, namespace: str, name: str, schema: str, fn: Callable[..., Any], *tags: Any, **others: Any
    ) -> None:
        """Replacement of the constructor of what `custom_op` returns."""
        owner, qualname = _owner(sys._getframe(1)), f"{namespace}::{name}"  # noqa: SLF001 - the defining code
        with LOCK:
            there = [*filter(_is_there, [of() for of in versions.get(qualname, ())])]
            last = definitions.get(qualname)
            if last is not None and last not in there and _is_there(last):
                there.append(last)
            versions[qualname] = [ref(each) for each in there]
            same = next((each for each in there if _is_same(each, schema, tags)), None)
            if same is not None and (owner is not None or isinstance(same, Entry)):
                if not isinstance(same, Entry):
                    become_entry(same, entry_class)
                vars(same)["_owners"].begin(owner, fn)
                self.__class__ = entry_class
                vars(self).update(vars(same))
                _let_be_meant(same, namespace, name, definitions)
                return
            in_use = same is None and any(map(partial(_is_in_use, owner=owner), there))
            if owner is not None:
                self.__class__ = entry_class
                vars(self)["_owners"] = owners = Owners()
                owners.begin(owner, fn)
            own_name = name
            if in_use:
                names = (f"{name}__{number}" for number in count(len(there) + 1))
                own_name = next(each for each in names if f"{namespace}::{each}" not in definitions)
            define.below(self, namespace, own_name, schema, fn, *tags, **others)
            versions[qualname].append(ref(self))
            if in_use:
                _let_be_meant(self, namespace, name, definitions)

    return replace_all([define])


def _owner(frame: FrameType | None) -> CallingWorker | None:
    """Return the owner of an operator that the code of that frame defines; None: the process."""
    me = calling_worker()
    while me is not None and frame is not None:
        if frame.f_code.co_name == "<module>":
            return None if is_of_shared_module(frame.f_globals) else me
        frame = frame.f_back
    return me


def _is_there(definition: Any) -> bool:
    """Whether the definition exists, and was not destroyed."""
    return definition is not None and vars(definition)["_lib"].m is not None


def _is_in_use(definition: Any, owner: CallingWorker | None) -> bool:
    """Whether anybody else has the definition, and may be calling it."""
    if not isinstance(definition, Entry):
        return owner is not None
    return bool(vars(definition)["_owners"].others(owner))


def _let_be_meant(definition: Any, namespace: str, name: str, definitions: Any) -> None:
    """Let the operator's name refer to this one of several definitions."""
    definitions[f"{namespace}::{name}"] = definition
    operators = getattr(getattr(sys.modules.get("torch"), "ops", None), namespace, None)
    if operators is not None:
        setattr(operators, name, getattr(operators, vars(definition)["_name"]))


def _is_same(known: Any, schema: str, tags: Sequence[Any]) -> bool:
    """Whether it was defined with this schema and these tags, which not all versions of PyTorch have."""
    present = vars(known)
    return bool(present["_schema"] == schema and _as_set(present.get("_tags")) == _as_set(*tags or [None]))


def _as_set(tags: Any) -> set[Any]:
    return set(tags) if isinstance(tags, (list, tuple)) else {tags} - {None}
