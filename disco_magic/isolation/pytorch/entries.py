"""One definition of a PyTorch operator, with the functions of each worker; see `operators`."""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from disco_magic.callers import namespaces
from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import dictionary_of
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import FrameType

    from disco_magic.callers.current import CallingWorker

LOCK: Final = new_rlock()  # reentrant: a finalizer may define or drop one meanwhile
"""Held while operators are defined, and while functions are registered for them."""
_FUNCTION: Final = "_fn"  # ending of the names of an operator's attributes that may hold a function
_FIRST: Final = "_init_fn"
_KERNELS: Final = "_backend_fns"
_BACKWARD: Final = "_backward_fn"
_CONTEXT: Final = "_setup_context_fn"
_OF_FORWARD: Final = "_disco_own"  # attribute of autograd's context objects
_AUTOCAST: Final = "Autocast"


class Owners:
    """What workers, and the process, have registered for one operator, by names of PyTorch's attributes."""

    def __init__(self) -> None:
        self._workers: WeakSet[CallingWorker] = WeakSet()
        self._process: dict[str, Any] | None = None
        self._kept: dict[str, Any] | None = None  # the last worker's for which a shared module defined it
        self._empty: dict[str, Callable[[], object]] = {}  # attribute -> makes its initial value

    def begin(self, owner: CallingWorker | None, fn: Callable[..., Any]) -> None:
        """Note that `owner` defines it, as `fn` and with nothing else registered yet; None: the process."""
        own = {name: make() for name, make in self._empty.items()} | {_FIRST: fn}
        if owner is None:
            self._process = own
        else:
            owner.belongings[self] = own
            self._workers.add(owner)
            if is_of_shared_module(getattr(fn, "__globals__", None)):
                self._kept = own

    def assign(self, name: str, value: Any) -> None:
        """Set that attribute for the caller; for the process if the caller has not defined the operator."""
        me = calling_worker()
        own = None if me is None else me.belongings.get(self)
        own = self._process if own is None else own
        if own is None:
            raise RuntimeError(
                "this operator is another worker's, of this name: define it here, or register with what"
                " custom_op gave, `f.register_kernel`"
            )
        value = _Kernels(value) if name == _KERNELS else value
        self._empty[name] = _none if name.endswith(_FUNCTION) else type(value)
        own[name] = value

    def knows(self, name: str) -> bool:
        """Whether anybody has, or had, such an attribute."""
        return name in self._empty

    def others(self, owner: CallingWorker | None) -> list[CallingWorker | None]:
        """Return the living workers, except `owner`, that have defined it; None stands for the process."""
        is_shared = self._process is not None or self._kept is not None
        process = [None] if is_shared and owner is not None else []
        return [*process, *(each for each in self._living() if each is not owner)]

    def _living(self) -> list[CallingWorker]:
        with LOCK:
            return [*filter(_is_living, self._workers)]

    def of_caller(self) -> dict[str, Any]:
        """Return the attributes of the calling worker, else of the process, else of another worker.

        One that has ended is used only if a shared module has defined the operator for it: such a module may
        keep what it has defined, and never define it again.
        """
        me = calling_worker()
        mine: dict[str, Any] | None = None if me is None else me.belongings.get(self)
        if mine is not None:
            return mine
        living = self._living()
        around = _owner_around(living) if me is None else None
        if around is not None:
            return around.belongings[self]  # type: ignore[no-any-return]
        if self._process is not None:
            return self._process
        if not living and self._kept is not None:
            return self._kept
        if not living:
            raise RuntimeError(
                "the workers that have defined this operator have ended, and it with them; define it again"
            )
        first = min(living, key=lambda each: (each.session_id, each.id))
        return first.belongings[self]  # type: ignore[no-any-return]


def _owner_around(owners: Sequence[CallingWorker]) -> CallingWorker | None:
    """The worker whose cell's code the calling thread, one of PyTorch's, executes; None if there is none."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way to see who calls
    while owners and frame is not None:
        for each in owners:
            if each.namespace is frame.f_globals:
                return each
        frame = frame.f_back
    return None


def is_of_shared_module(scope: Mapping[str, Any] | None) -> bool:
    """Whether these are the global variables of a module that all workers share."""
    module = None if scope is None else sys.modules.get(scope.get("__name__", ""))
    return isinstance(module, ModuleType) and dictionary_of(module) is scope


def _none() -> None:
    """Return the initial value of an attribute that holds a function."""


def _is_living(worker: CallingWorker) -> bool:
    return any(names is worker.namespace for names in namespaces.of_worker(worker.session_id, worker.id))


class _Kernels(dict[Any, Any]):
    """Device -> the caller's function; the dispatcher asks for devices that any worker has registered."""

    def __missing__(self, device: Any) -> Any:
        if None in self:
            return self[None]
        raise NotImplementedError(
            f"this worker has registered no function of the operator for {device!r}, others have; see"
            " register_kernel"
        )


class Entry:
    """A definition that the dispatcher calls, or another handle of it; registered functions are the caller's.

    What is the same for all is in its dictionary, where `torch.compile` looks for it.
    """

    def __getattr__(self, name: str) -> Any:
        owners = vars(self).get("_owners")  # a copy that is being made has none yet
        own = owners.of_caller() if owners is not None and owners.knows(name) else {}
        if name not in own:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=self)
        if name == _BACKWARD:
            return _Backward(own) if own[name] is not None or calling_worker() is None else None
        if name == _CONTEXT and own.get(_BACKWARD) is not None:
            return partial(_remember, own)
        return own[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_lib":
            vars(self)[name] = _Once(value, self)
        elif _is_own(name, value):
            vars(self)["_owners"].assign(name, value)
        else:
            object.__setattr__(self, name, value)


def _remember(own: dict[str, Any], *, ctx: Any, **given: Any) -> None:
    """Note for the gradients whose call this is: PyTorch may compute them in threads of its own."""
    vars(ctx)[_OF_FORWARD] = own
    if own[_CONTEXT] is not None:
        own[_CONTEXT](ctx=ctx, **given)


class _Backward:
    """Calls the gradient function of the worker that has called the operator."""

    def __init__(self, own: dict[str, Any]) -> None:
        self._own = own

    def __call__(self, ctx: Any, *gradients: Any) -> Any:
        function = vars(ctx).get(_OF_FORWARD, self._own)[_BACKWARD]
        if function is None:
            raise RuntimeError(
                "no autograd formula was registered for this operator: register_autograd adds one"
            )
        return function(ctx, *gradients)


def _is_own(name: str, value: Any) -> bool:
    """Whether that attribute of a definition is something registered."""
    return name.endswith(_FUNCTION) or (isinstance(value, (dict, set, list)) and name != "_tags")


def become_entry(known: Any, entry_class: type) -> None:
    """Turn a definition of the process's into one that workers can join."""
    library = vars(known)["_lib"]
    own, owners = {name: value for name, value in vars(known).items() if _is_own(name, value)}, Owners()
    owners.begin(None, own[_FIRST])
    for name, value in own.items():
        owners.assign(name, value)
    vars(known).update(_owners=owners, _lib=_Once(library, known, own.get("_torch_dispatch_fns", ())))
    known.__class__ = entry_class
    for name in own:  # attributes that are missing are looked up among the owners'
        vars(known).pop(name)


class _Once:
    """PyTorch's library of one operator; of all workers' registrations only the first one is made there."""

    def __init__(self, library: Any, entry: Any, rules: Iterable[type] = ()) -> None:
        self._library, self._entry = library, entry
        self._rules = set(rules)
        self._casts: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_library"), name)

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **others: Any) -> None:
        """See `torch.library.Library.impl`."""
        name = op_name if isinstance(op_name, str) else op_name._schema.name  # noqa: SLF001 - as PyTorch does
        key = f"{self._library.ns}/{name.split('::')[-1]}/{dispatch_key}"
        with LOCK:
            if dispatch_key.startswith(_AUTOCAST):  # the function knows its dtype, which is in no attribute
                if key in self._library._op_impls and key not in self._casts:  # noqa: SLF001 - as below
                    raise RuntimeError(
                        f"{dispatch_key} of this operator is what the process has registered, for everybody"
                    )
                self._casts.add(key)
                owners = vars(self._entry)["_owners"]
                owners.of_caller().setdefault(_AUTOCAST, {})[dispatch_key] = fn
                fn = _Autocast(self._entry, dispatch_key)
            if key not in self._library._op_impls:  # noqa: SLF001 - what was registered before
                self._library.impl(op_name, fn, dispatch_key, **others)

    def _register_torch_dispatch_rule(self, op_name: str, kind: type, fn: Callable[..., Any]) -> None:
        with LOCK:
            if kind not in self._rules:
                self._library._register_torch_dispatch_rule(op_name, kind, fn)  # noqa: SLF001 - in its place
                self._rules.add(kind)


class _Autocast:
    """Casts arguments as the calling worker has registered, or not at all."""

    def __init__(self, entry: Any, key: str) -> None:
        self._entry, self._key = entry, key

    def __call__(self, keyset: Any, *args: Any, **others: Any) -> Any:
        kernel = vars(self._entry)["_owners"].of_caller().get(_AUTOCAST, {}).get(self._key)
        if kernel is not None:
            return kernel(keyset, *args, **others)
        c = sys.modules["torch"]._C  # noqa: SLF001 - as PyTorch's own
        with c._ExcludeDispatchKeyGuard(c.DispatchKeySet(getattr(c.DispatchKey, self._key))):  # noqa: SLF001
            return vars(self._entry)["_opoverload"](*args, **others)
