"""Process-wide switches of PyTorch that code sets for a while: ``with sdpa_kernel(...):``.

Code that sets one notes its value, and restores that. With several workers, the second one notes what the
first has set, and restores that for good when all have left. Here a worker sees what it has set itself, or
else what the process has, and a switch returns to the process's value when no worker wants another one.
Meanwhile, for all, it has the value that was set last by a worker that wants another one. Of what `flags`
set, the precision of float32 is not included.
"""

from __future__ import annotations

import sys
import warnings
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.current import calling_worker, is_given_up
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.threads.locks import new_rlock
from disco_magic.values.kinds import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    from disco_magic.callers.current import CallingWorker


class Names(NamedTuple):
    """The functions that set a switch, and that read it.

    Attributes:
        set: takes one value per getter: the first one by position, the others also by name.
        get: the getters.
        further: names of the second value and those after it, and their defaults.
        lasting: whether it is usually set for good, and not for a ``with`` block.
        told: what a worker is warned of, once, that sets another value than one that has set it; "": nothing.
    """

    set: str
    get: tuple[str, ...]
    further: tuple[tuple[str, Any], ...] = ()
    lasting: bool = False
    told: str = ""


_DTYPES: Final = (
    "workers have different default dtypes, and PyTorch has one for all of them: what a worker makes without"
    " naming a dtype now has the one that was set last - let all workers set it together, with a barrier()"
    " before and after, or pass `dtype=`"
)
_ALIKE: Final = (
    "cudnn_allow_tf32",
    "cudnn_benchmark",
    "cudnn_deterministic",
    "cudnn_enabled",
    "math_sdp_allow_fp16_bf16_reduction",
    "mkldnn_deterministic",
    "mkldnn_enabled",
    "native_aot_enabled",
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
    # torchtune sets it while it makes a model, and restores the one that it has found.
    Names("_set_default_dtype", ("get_default_dtype",), lasting=True, told=_DTYPES),
    Names("_set_check_sparse_tensor_invariants", ("_check_sparse_tensor_invariants",)),
    *(Names(f"_set_{each}", (f"_get_{each}",)) for each in _ALIKE),
    *(Names(f"_set_sdp_use_{each}", (f"_get_{each}_sdp_enabled",)) for each in _ATTENTION),
)

_FOLDED: Final = ("get_default_dtype",)

_lock: Final = new_rlock()
_switches: Final[list[_Switch]] = []


class _Switch:
    """One switch."""

    def __init__(self, names: Names, owners: list[ModuleType], settings: Iterable[Any] = ()) -> None:
        self.lasting = names.lasting
        self._further, self._told = names.further, names.told
        # Worker -> the value that it wants, if not the process's; last set last.
        self._wanted: dict[CallingWorker, tuple[Any, ...]] = {}
        self._usual: tuple[Any, ...] = ()  # the process's value, while there are any
        self._replaced: list[Replaced] = []
        first = owners[0]
        self._set: Callable[..., Any] = vars(first)[names.set]
        self._get: list[Callable[[], Any]] = [vars(first)[name] for name in names.get]
        ours = {names.set: self._setter(), **{name: self._getter(n) for n, name in enumerate(names.get)}}
        self._ours, self._names = ours, names.get
        for owner in owners:
            self._replaced += [
                Replaced(owner, name, made) for name, made in ours.items() if name in vars(owner)
            ]

        for setting in settings:
            if setting.getter is self._get[0] and setting.setter is self._set:
                self._replaced.append(Replaced(setting, "getter", ours[names.get[0]]))
                self._replaced.append(Replaced(setting, "setter", ours[names.set]))

    def put(self) -> Callable[[], None]:
        """Install the replacements; return what undoes that."""
        undo = replace_all(self._replaced)
        _switches.append(self)

        def take() -> None:
            _switches.remove(self)
            undo()

        return take

    @property
    def getters(self) -> list[tuple[Callable[[], Any], Callable[[], Any]]]:
        """PyTorch's getters, and those that replace them."""
        return [(first, self._ours[name]) for first, name in zip(self._get, self._names, strict=True)]

    def wanted_by(self, me: CallingWorker) -> tuple[Any, ...] | None:
        """The value that a worker wants, if it is not the process's; else None."""
        return self._wanted.get(me)

    def restore(self, me: CallingWorker, then: tuple[Any, ...] | None) -> None:
        """Restore what a worker wanted: `wanted_by` of then."""
        with _lock:
            if self._wanted.get(me) != then:
                self._want(me, self._usual if then is None else then)

    def _getter(self, number: int) -> Callable[[], Any]:
        first = self._get[number]

        @wraps(first)
        def get() -> Any:
            # Read without the lock, another worker's temporary value might later be restored for good.
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
                self._set(*args, **options)  # raises the error
                return
            values, told = (*args, *(options.get(name, default) for name, default in others)), ""
            with _lock:
                if me is None:
                    # A worker's block that a stop has cut off ends here when the error is garbage-collected.
                    if not isinstance(sys.exception(), GeneratorExit):
                        self._usual = values
                        self._turn(values)
                elif not is_given_up():
                    self._want(me, values)
                    told = self._differing(values)
            if told:
                warnings.warn(told, stacklevel=3)  # below `torch.set_default_dtype`

        return turn

    def _differing(self, values: tuple[Any, ...]) -> str:
        """What to warn of, once, if others want something else than a worker that has set this."""
        if all(other == values for other in self._wanted.values()):
            return ""
        told, self._told = self._told, ""
        return told

    def _want(self, me: CallingWorker, values: tuple[Any, ...]) -> None:
        """Set a worker's value, under the lock. An interrupt anywhere leaves an unwanted switch as usual."""
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
    """Let workers set those that this version of PyTorch has; `torch` is the package."""
    undoing, settings = [], list(_settings(torch))
    for names in SWITCHES:
        every = (names.set, *names.get)
        owners = [owner for owner in (vars(torch)["_C"], torch) if vars(owner).keys() & set(every)]
        if owners and all(name in vars(owners[0]) for name in every):
            undoing.append(_Switch(names, owners, settings).put())

    def undo() -> None:
        for each in undoing:
            each()

    return undo


def fit_folding(module: ModuleType) -> Callable[[], None]:
    """Let PyTorch's compiler compute our getters while it compiles; `module` is ``_dynamo.variables.torch``.

    It has the functions that were there when it was imported: ours, or PyTorch's own.
    """
    folded = module.constant_fold_functions
    known = [pair for pair in _getters() if not folded.keys().isdisjoint(pair)]
    folded.update(dict.fromkeys(each for pair in known for each in pair))

    def undo() -> None:
        for _, ours in known:
            folded.pop(ours, None)

    return undo


def fit_allowed(rules: Any) -> Callable[[], None]:
    """Let it treat these like PyTorch's own; `rules` is ``torch._dynamo.trace_rules``."""
    ids = rules._allowed_callable_ids  # noqa: SLF001 - the public way imports the compiler
    added = {id(each) for pair in _getters() for each in pair} - ids()
    for each in added:
        ids.add(each)

    def undo() -> None:
        for each in added:
            ids.remove(each)

    return undo


def _getters() -> list[tuple[Callable[[], Any], Callable[[], Any]]]:
    """PyTorch's getters that its compiler knows by identity, and those that replace them."""
    return [pair for each in _switches for pair in each.getters if pair[0].__name__ in _FOLDED]


def _settings(torch: ModuleType) -> Iterator[Any]:
    backends = vars(torch).get("backends")
    for module in list(vars(backends).values()) if backends is not None else ():
        for each in list(vars(type(module)).values()):
            if name_of(type(each)) == "ContextProp":
                yield each


def switches_now(me: CallingWorker, *, lasting: bool) -> dict[_Switch, tuple[Any, ...] | None]:
    """Return what a worker wants of the switches that are set for a while; with `lasting`, of all."""
    return {each: each.wanted_by(me) for each in list(_switches) if lasting or not each.lasting}


def end_switches(me: CallingWorker, then: dict[_Switch, tuple[Any, ...] | None]) -> None:
    """Restore all switches, also those of a PyTorch that was imported since; {}: the worker has ended."""
    restore_switches(me, {each: then.get(each) for each in _switches})


def restore_switches(me: CallingWorker, then: dict[_Switch, tuple[Any, ...] | None]) -> None:
    """Restore that: a stop may have struck where a ``with`` block begins or ends."""
    for each, wanted in then.items():
        each.restore(me, wanted)
