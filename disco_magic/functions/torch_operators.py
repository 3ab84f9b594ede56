"""Operators of PyTorch that workers define with `torch.library.custom_op`: each worker's own.

PyTorch's table of operators is the process's. Processes have one each; of threads that define the same
operator each would destroy what the others have defined, in the midst of it, and that may end the process.
So there is one entry, defined once, whose functions are those of whoever calls::

    worker 0   custom_op("ns::f")(f0)     defines ns::f
    worker 1   custom_op("ns::f")(f1)     with the same schema: another name of that, for functions of its own
    worker 1   torch.ops.ns.f(x)          dispatcher -> the entry's function -> that of the caller, f1

With another schema it is defined anew, for all, as PyTorch does it. What the body of a module defines that
all workers share is the process's, whichever of them imports it. Who has not defined an operator, a thread
that is no worker's for one, calls the process's, else that of a worker who has.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from disco_magic.functions import namespaces
from disco_magic.functions.context import calling_worker
from disco_magic.functions.replaced import Replaced, replace_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import FrameType

    from disco_magic.functions.context import WorkerContext

_LOCK: Final = threading.RLock()  # a finalizer may define or drop one meanwhile
# The true dictionary of a module: `namespaces` has a class of modules that show another one.
_DICTIONARY: Final[Any] = vars(ModuleType)["__dict__"]
_FUNCTION: Final = "_fn"  # the ending of what may hold a function, of an operator's attributes
_FIRST: Final = "_init_fn"
_KERNELS: Final = "_backend_fns"


def fit_operators(module: Any) -> Callable[[], None]:
    """Change ``torch._library.custom_ops``; returns what undoes it.

    Raises:
        AttributeError: it is not as we know it.
    """
    definitions, libraries, base = module.OPDEFS, module.OPDEF_TO_LIB, module.CustomOpDef
    entry_class = type(base.__name__, (_Entry, base), {"__module__": base.__module__})

    def define(
        self: Any, namespace: str, name: str, schema: str, fn: Callable[..., Any], *tags: Any, **others: Any
    ) -> None:
        """In the place of the constructor of what `custom_op` returns."""
        owner, qualname = _owner(sys._getframe(1)), f"{namespace}::{name}"  # noqa: SLF001 - whose code this is
        with _LOCK:
            known, library = definitions.get(qualname), libraries.get(qualname)
            is_there = library is not None and known is not None and _is_same(known, schema, tags)
            if is_there and (owner is not None or isinstance(known, _Entry)):
                if not isinstance(known, _Entry):
                    _become_entry(known, entry_class, library)
                vars(known)["_owners"].begin(owner, fn)
                self.__class__ = entry_class
                vars(self).update(vars(known))
                return
            if owner is not None:
                self.__class__ = entry_class
                vars(self)["_owners"] = owners = _Owners()
                owners.begin(owner, fn)
            constructor.below(self, namespace, name, schema, fn, *tags, **others)

    constructor = Replaced(base, "__init__", define)
    return replace_all([constructor])


def _owner(frame: FrameType | None) -> WorkerContext | None:
    """Whose an operator is that the code of that frame defines; None: the process's."""
    me = calling_worker()
    while me is not None and frame is not None:
        if frame.f_code.co_name == "<module>":
            module = sys.modules.get(frame.f_globals.get("__name__", ""))
            is_shared = isinstance(module, ModuleType) and _DICTIONARY.__get__(module) is frame.f_globals
            return None if is_shared else me
        frame = frame.f_back
    return me


def _is_same(known: Any, schema: str, tags: Sequence[Any]) -> bool:
    """Whether it was defined in these words; of PyTorch's versions some have tags."""
    present = vars(known)
    return bool(present["_schema"] == schema and _as_set(present.get("_tags")) == _as_set(*tags or [None]))


def _as_set(tags: Any) -> set[Any]:
    return set(tags) if isinstance(tags, (list, tuple)) else {tags} - {None}


class _Owners:
    """What the workers, and the process, have registered for one operator, as attributes of PyTorch's."""

    def __init__(self) -> None:
        self._workers: WeakSet[WorkerContext] = WeakSet()
        self._process: dict[str, Any] | None = None
        self._empty: dict[str, Callable[[], object]] = {}  # what makes an attribute as it is at first

    def begin(self, owner: WorkerContext | None, fn: Callable[..., Any]) -> None:
        """Somebody defines it, as `fn` and without what is registered afterwards; None: the process."""
        own = {name: make() for name, make in self._empty.items()} | {_FIRST: fn}
        if owner is None:
            self._process = own
        else:
            owner.belongings[self] = own
            self._workers.add(owner)

    def assign(self, name: str, value: Any) -> None:
        """Let that attribute of the caller's be `value`."""
        value = _Kernels(value) if name == _KERNELS else value
        self._empty[name] = _none if name.endswith(_FUNCTION) else type(value)
        self.of_caller()[name] = value

    def knows(self, name: str) -> bool:
        """Whether somebody has, or had, such an attribute."""
        return name in self._empty

    def of_caller(self) -> dict[str, Any]:
        """Those of the calling worker, else the process's, else those of a worker that has not ended.

        Raises:
            RuntimeError: nobody who has defined it is left.
        """
        me = calling_worker()
        mine: dict[str, Any] | None = None if me is None else me.belongings.get(self)
        mine = self._process if mine is None else mine
        if mine is not None:
            return mine
        with _LOCK:
            living = [each for each in self._workers if _is_living(each)]
        if not living:
            raise RuntimeError(
                "the workers that have defined this operator have ended, and it with them; define it again"
            )
        first = min(living, key=lambda each: (each.session_id, each.id))
        return first.belongings[self]  # type: ignore[no-any-return]


def _none() -> None:
    """What holds no function."""


def _is_living(worker: WorkerContext) -> bool:
    return any(
        names is worker.marks.namespace for names in namespaces.of_worker(worker.session_id, worker.id)
    )


class _Kernels(dict[Any, Any]):
    """The caller's function for each device; the dispatcher asks for those that anybody has registered."""

    def __missing__(self, device: Any) -> Any:
        if None in self:
            return self[None]
        raise KeyError(device)


class _Entry:
    """A definition that the dispatcher calls, or another name of it: what is registered is the caller's.

    What is the same for all is in its dictionary, where `torch.compile` looks for it.
    """

    def __getattr__(self, name: str) -> Any:
        owners = vars(self)["_owners"]
        own = owners.of_caller() if owners.knows(name) else {}
        if name not in own:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=self)
        return own[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_lib":
            vars(self)[name] = _Once(value)
        elif _is_own(name, value):
            vars(self)["_owners"].assign(name, value)
        else:
            object.__setattr__(self, name, value)


def _is_own(name: str, value: Any) -> bool:
    """Whether that attribute of a definition is what somebody has registered."""
    return name.endswith(_FUNCTION) or (isinstance(value, (dict, set, list)) and name != "_tags")


def _become_entry(known: Any, entry_class: type, library: Any) -> None:
    """Let a definition of the process's be one that workers can join."""
    own, owners = {name: value for name, value in vars(known).items() if _is_own(name, value)}, _Owners()
    owners.begin(None, own[_FIRST])
    for name, value in own.items():
        owners.assign(name, value)
    vars(known).update(_owners=owners, _lib=_Once(library, own.get("_torch_dispatch_fns", ())))
    known.__class__ = entry_class
    for name in own:  # what is not there is looked for among the owners'
        vars(known).pop(name)


class _Once:
    """PyTorch's library of one operator, where of all workers' registrations the first one's is made."""

    def __init__(self, library: Any, rules: Iterable[type] = ()) -> None:
        self._library = library
        self._rules = set(rules)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_library"), name)

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **others: Any) -> None:
        """See `torch.library.Library.impl`."""
        name = op_name if isinstance(op_name, str) else op_name._schema.name  # noqa: SLF001 - as PyTorch does
        key = f"{self._library.ns}/{name.split('::')[-1]}/{dispatch_key}"
        with _LOCK:
            if key not in self._library._op_impls:  # noqa: SLF001 - what it has registered
                self._library.impl(op_name, fn, dispatch_key, **others)

    def _register_torch_dispatch_rule(self, op_name: str, kind: type, fn: Callable[..., Any]) -> None:
        with _LOCK:
            if kind not in self._rules:
                self._library._register_torch_dispatch_rule(op_name, kind, fn)  # noqa: SLF001 - in its place
                self._rules.add(kind)
