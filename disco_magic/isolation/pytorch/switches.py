"""Switches of PyTorch that are the process's, and that code turns for a while: ``with sdpa_kernel(...):``.

Who turns one notes what it was, and puts that back. Of several workers the second one notes what the first
one has set, and puts it back for good when all have left. Here a worker sees what it has set itself, or else
what the process has, and a switch is as the process has it again when no worker wants it otherwise. Meanwhile
it is, for all, as it was set last by who wants it otherwise. Of what `flags` turn float32's precision is not
among them.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.current import calling_worker, is_given_up
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.locks import new_rlock
from disco_magic.values.kinds import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    from disco_magic.callers.current import CallingWorker


class Names(NamedTuple):
    """What turns a switch, and what tells how it stands.

    Attributes:
        set: takes one value per getter: the first one by its place, the others also by their names.
        get: the getters.
        further: names of the second value and those after it, and what they are unless they are given.
        lasting: whether it is rather set for good than for a ``with`` block.
    """

    set: str
    get: tuple[str, ...]
    further: tuple[tuple[str, Any], ...] = ()
    lasting: bool = False


_ALIKE: Final = (
    "cudnn_allow_tf32",
    "cudnn_benchmark",
    "cudnn_deterministic",
    "cudnn_enabled",
    "math_sdp_allow_fp16_bf16_reduction",
    "mkldnn_deterministic",
    "mkldnn_enabled",
    "nnpack_enabled",
    "sdp_priority_order",
)
_LASTING: Final = ("deterministic_fill_uninitialized_memory", "float32_matmul_precision", "warnAlways")
_ATTENTION: Final = ("flash", "math", "mem_efficient", "cudnn", "overrideable")
SWITCHES: Final = (
    Names(
        "set_anomaly_enabled", ("is_anomaly_enabled", "is_anomaly_check_nan_enabled"), (("check_nan", True),)
    ),
    Names(
        "_set_deterministic_algorithms",
        ("_get_deterministic_algorithms", "_get_deterministic_algorithms_warn_only"),
        (("warn_only", False),),
        lasting=True,
    ),
    *(Names(f"_set_{each}", (f"_get_{each}",), lasting=True) for each in _LASTING),
    Names("_set_check_sparse_tensor_invariants", ("_check_sparse_tensor_invariants",)),
    *(Names(f"_set_{each}", (f"_get_{each}",)) for each in _ALIKE),
    *(Names(f"_set_sdp_use_{each}", (f"_get_{each}_sdp_enabled",)) for each in _ATTENTION),
)

_lock: Final = new_rlock()
_switches: Final[list[_Switch]] = []


class _Switch:
    """One of them.

    Args:
        names: of its functions.
        owners: the modules that have these, under the same names.
        settings: what PyTorch has for settings that are attributes, ``torch.backends.cudnn.benchmark``; each
            knows a getter and a setter.
    """

    def __init__(self, names: Names, owners: list[ModuleType], settings: Iterable[Any] = ()) -> None:
        self.lasting = names.lasting
        self._further = names.further
        # By those who want it otherwise, last set last.
        self._wanted: dict[CallingWorker, tuple[Any, ...]] = {}
        self._usual: tuple[Any, ...] = ()  # what the process has, while there are any
        self._replaced: list[Replaced] = []
        first = owners[0]
        self._set: Callable[..., Any] = vars(first)[names.set]
        self._get: list[Callable[[], Any]] = [vars(first)[name] for name in names.get]
        ours = {names.set: self._setter(), **{name: self._getter(n) for n, name in enumerate(names.get)}}
        for owner in owners:
            self._replaced += [
                Replaced(owner, name, made) for name, made in ours.items() if name in vars(owner)
            ]

        for setting in settings:
            if setting.getter is self._get[0] and setting.setter is self._set:
                self._replaced.append(Replaced(setting, "getter", ours[names.get[0]]))
                self._replaced.append(Replaced(setting, "setter", ours[names.set]))

    def put(self) -> Callable[[], None]:
        """Put it in its place; returns what undoes that."""
        undo = replace_all(self._replaced)
        _switches.append(self)

        def take() -> None:
            _switches.remove(self)
            undo()

        return take

    def leave(self, me: CallingWorker) -> None:
        """A worker has ended, and wants nothing any more."""
        with _lock:
            if me in self._wanted:
                self._want(me, self._usual)

    def wanted_by(self, me: CallingWorker) -> tuple[Any, ...] | None:
        """How a worker wants it, if otherwise than it is."""
        return self._wanted.get(me)

    def restore(self, me: CallingWorker, then: tuple[Any, ...] | None) -> None:
        """Let a worker want it as it did: `wanted_by` of then."""
        with _lock:
            if self._wanted.get(me) != then:
                self._want(me, self._usual if then is None else then)

    def _getter(self, number: int) -> Callable[[], Any]:
        first = self._get[number]

        @wraps(first)
        def get() -> Any:
            # Who asks without the lock may put back for good what another one turns meanwhile.
            with _lock:
                if not self._wanted:
                    return first()
                me = calling_worker()
                return (self._usual if me is None else self._wanted.get(me, self._usual))[number]

        return get

    def _setter(self) -> Callable[..., None]:
        @wraps(self._set)
        def turn(*args: Any, **options: Any) -> None:
            me = calling_worker()
            others = self._further[len(args) - 1 :]
            if not args or len(args) > len(self._get) or options.keys() - dict(others):
                self._set(*args, **options)  # which says what is wrong
                return
            values = (*args, *(options.get(name, default) for name, default in others))
            with _lock:
                if me is None:
                    # A block of a worker's that a stop has left ends here when the error is forgotten.
                    if not isinstance(sys.exception(), GeneratorExit):
                        self._usual = values
                        self._turn(values)
                elif not is_given_up():
                    self._want(me, values)

        return turn

    def _want(self, me: CallingWorker, values: tuple[Any, ...]) -> None:
        """With the lock. An interrupt may strike anywhere: where nobody is noted, the switch is as usual."""
        if not self._wanted:
            self._usual = tuple(get() for get in self._get)
        others = {worker: wanted for worker, wanted in self._wanted.items() if worker is not me}
        if values != self._usual:
            self._wanted = {**others, me: values}
            self._turn(values)
        else:
            if me in self._wanted or not others:
                self._turn(next(reversed(others.values()), values))
            self._wanted = others

    def _turn(self, values: tuple[Any, ...]) -> None:
        names = [name for name, _ in self._further]
        self._set(values[0], **dict(zip(names, values[1:], strict=True)))


def fit_switches(torch: ModuleType) -> Callable[[], None]:
    """Let workers turn those that this version of PyTorch has; `torch` is the package."""
    undoing, settings = [], list(_settings(torch))
    for names in SWITCHES:
        owners = [owner for owner in (vars(torch)["_C"], torch) if names.set in vars(owner)]
        if owners and all(name in vars(owners[0]) for name in names.get):
            undoing.append(_Switch(names, owners, settings).put())

    def undo() -> None:
        for each in undoing:
            each()

    return undo


def _settings(torch: ModuleType) -> Iterator[Any]:
    backends = vars(torch).get("backends")
    for module in list(vars(backends).values()) if backends is not None else ():
        for each in list(vars(type(module)).values()):
            if name_of(type(each)) == "ContextProp":
                yield each


def switches_now(me: CallingWorker) -> dict[_Switch, tuple[Any, ...] | None]:
    """How a worker wants those that are turned for a while."""
    return {each: each.wanted_by(me) for each in _switches if not each.lasting}


def restore_switches(me: CallingWorker, then: dict[_Switch, tuple[Any, ...] | None]) -> None:
    """Let it be so again: a stop may have struck where a ``with`` block begins or ends."""
    for each, wanted in then.items():
        each.restore(me, wanted)


def leave_switches(me: CallingWorker) -> None:
    """A worker has ended: what it has turned is as the others want it."""
    for each in _switches:
        each.leave(me)
