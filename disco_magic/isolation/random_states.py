"""Random states that a module keeps per process: `random`'s, NumPy's, CuPy's. Each worker has its own.

Programs seed them as processes do, ``np.random.seed(0)`` on every rank for numbers that are equal on all. If
all workers drew from one state in turns, it would be unpredictable what each gets. While any session runs,

1. the functions of `random` and `numpy.random` that draw from the state, seed it, save it or restore it use
   the calling worker's; for all other callers they do what they did;
2. code that holds NumPy's state object, as SciPy and scikit-learn do, finds the worker's state in it while
   drawing, and so does code that takes Python's, as NetworkX does;
3. CuPy finds the state of a GPU among the worker's own: otherwise workers on one GPU would share it.

A worker's states begin at random and end with it. They are shared with its threads. For PyTorch, see
`pytorch.random`. A call takes about 0.5 us longer, in the notebook as well; 0.1 ms where code that holds the
state object draws after code that calls the functions, or the other way round.
"""

from __future__ import annotations

import importlib
import os
import random
from _thread import RLock
from contextvars import Context
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

from disco_magic.callers.per_worker import PerWorker
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.callers.stand_ins import StandIn, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType


# Functions of `numpy.random` that are no methods of a state -> the method's name.
_NO_METHODS: Final = {"sample": "random_sample", "ranf": "random_sample"}
# Before NumPy 2.4 these do not wait while another thread draws.
_HASTY: Final = ("seed", "get_state", "set_state")


class StateFunction(StandIn):
    """A function that acts on the random state of the calling worker, and on the process's for other callers.

    Args:
        first, place: see `StandIn`.
        method: its name as a method of a state.
        own: the workers' states.
        others: what is called for other callers; None: `first`.
    """

    def __init__(
        self,
        first: Callable[..., Any],
        place: str,
        method: str,
        own: PerWorker[Any],
        others: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(first, place)
        self._method, self._own, self._others = method, own, others or first

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function on the worker's state."""
        __tracebackhide__ = True
        mine = self._own.mine()
        call = self._others if mine is None else getattr(mine, self._method)
        return call(*args, **kwargs)


class _LockOfNumpy(RLock):  # type: ignore[misc]  # at run time it may be derived from
    """The lock of NumPy's one state object: a thread that acquires it finds its own state in the object.

    A worker's state stays in it until another worker takes it; the lock is released by C code, so that no
    interrupt strikes in between. Workers are not interrupted in ``__enter__``, see `fragile`.

    Attributes:
        tenant: the state that is in it; None: its own, which is the process's.
    """

    def __init__(self, everyones: Any, whose: Callable[[], Any]) -> None:
        self._everyones, self._whose = everyones, whose
        self._of_process: Any = None
        self._is_changing = False  # since NumPy 2.4 that acquires the lock, too
        self.tenant: Any = None

    def __enter__(self) -> bool:  # type: ignore[override]  # that of `acquire`
        mine = self._whose()
        present: Any = None
        try:
            self.acquire()
            if self.tenant is not mine and not self._is_changing:
                self._is_changing = True
                present = self._everyones.get_state(legacy=False)
                if self.tenant is None:
                    self._of_process = present
                else:
                    self.tenant.set_state(present)
                self._everyones.set_state(self._of_process if mine is None else mine.get_state(legacy=False))
                self.tenant = mine
                self._is_changing = False
        except BaseException:  # Ctrl-C
            if self._is_owned():  # type: ignore[attr-defined]  # as `threading.Condition` asks
                if present is not None and self.tenant is not mine:
                    self._everyones.set_state(present)
                self._is_changing = False
                self.release()
            raise
        return True


class _OfNumpy(PerWorker[Any]):
    """The workers' states of NumPy's legacy generator, and their exchange with NumPy's one state object."""

    def __init__(self, module: Any) -> None:
        super().__init__(self._begin)
        self._module = module
        self._everyones = everyones = module._rand  # noqa: SLF001 - its methods are the module's functions
        self._lock = _LockOfNumpy(everyones, super().mine)
        self._first: Any = module.get_bit_generator()
        self._lent: Any = None

    def _begin(self) -> Any:
        return self._module.RandomState(type(self._first)())

    def mine(self) -> Any:
        """Return the calling worker's state, including what was drawn through NumPy's state object."""
        found = super().mine()
        if found is not None and found is self._lock.tenant:
            self.settle()
        return found

    def locked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call`, changed so that it waits while another thread draws."""

        def waiting(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            with self._lock:
                return call(*args, **kwargs)

        return waiting

    def settle(self) -> None:
        """Put the process's state back into NumPy's state object."""
        _as_nobody(self._wait)

    def _wait(self) -> None:
        with self._lock:
            pass

    def lend(self) -> None:
        """From now on let NumPy's state object draw from the state of whoever calls."""
        self._first = self._module.get_bit_generator()
        self._lent = _with_lock(type(self._first), self._lock)
        _as_nobody(self._initialize, self._lent)

    def end(self) -> None:
        """Undo `lend`, unless NumPy was given another bit generator meanwhile."""
        if self._module.get_bit_generator() is self._lent:
            _as_nobody(self._initialize, self._first)

    def _initialize(self, numbers: Any) -> None:
        with self._module.get_bit_generator().lock:
            state = self._everyones.get_state(legacy=False)
            self._module.set_bit_generator(numbers)
            self._everyones.set_state(state)


def _as_nobody(act: Callable[..., None], *args: Any) -> None:
    """Call a function outside of any worker, also in a worker's thread."""
    Context().run(act, *args)


def _with_lock(kind: Any, lock: _LockOfNumpy) -> Any:
    """Return a bit generator of that kind with another lock."""

    def reduce(self: Any) -> Any:
        made, args, *rest = kind.__reduce__(self)
        return (made, tuple(kind if each is own else each for each in args), *rest)

    # States name their kind.
    own = type(kind.__name__, (kind,), {"lock": lock, "__reduce__": reduce, "__module__": kind.__module__})
    return own()


class _Gpus(dict[int, Any]):
    """CuPy's table GPU -> state, in which each worker finds entries of its own."""

    def __init__(self, everyones: Mapping[int, Any]) -> None:
        super().__init__(everyones)
        self._own: PerWorker[dict[int, Any]] = PerWorker(dict)

    @staticmethod
    def _of_caller(name: str) -> Callable[..., Any]:
        """The method of that name, for the caller's entries."""
        method = getattr(dict, name)

        def act(self: _Gpus, *args: Any) -> Any:
            mine = self._own.mine()
            return method(self if mine is None else mine, *args)

        return act

    get, setdefault, __setitem__, clear = map(_of_caller, ("get", "setdefault", "__setitem__", "clear"))


# Made once, like the functions that draw from them, see `standing`.
_OF_PYTHON: Final = PerWorker(random.Random)
_of_numpy: Final = cache(_OfNumpy)


def _begin_anew() -> None:
    """Reseed in a forked child, which must not draw what its parent does; `random` does so, too."""
    mine = _OF_PYTHON.mine()
    if mine is not None:
        mine.seed()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def fit_random(module: ModuleType) -> Callable[[], None]:
    """Let each worker have a state of Python's generator; `module` is ``random``."""
    everyones = module._inst  # noqa: SLF001 - its methods are the functions
    names = [name for name, each in vars(module).items() if getattr(each, "__self__", None) is everyones]
    ours = [standing(StateFunction, getattr(module, name), "random", name, _OF_PYTHON) for name in names]
    hidden = Replaced(module, "_inst", HiddenGenerator(everyones, _OF_PYTHON))
    return replace_all([hidden, *(Replaced(module, each.name, each) for each in ours)])


def fit_numpy(module: Any) -> Callable[[], None]:
    """Let each worker have a state of NumPy's older generator; `module` is ``numpy.random``."""
    # A package of which an import was stopped once has no such attribute when it is imported again.
    mtrand = getattr(module, "mtrand", None) or importlib.import_module("numpy.random.mtrand")
    states = _of_numpy(mtrand)
    ours = []
    for name in module.__all__:
        method, first = _NO_METHODS.get(name, name), getattr(module, name)
        if hasattr(module.RandomState, method):
            others = states.locked(first) if name in _HASTY else None
            ours.append(standing(StateFunction, first, "numpy.random", method, states, others))
    functions = [Replaced(place, each.name, each) for place in (module, mtrand) for each in ours]
    states.lend()
    try:
        undo = replace_all(functions)
    except BaseException:
        states.end()
        raise

    def end() -> None:
        undo()
        states.end()

    return end


def fit_cupy(module: Any) -> Callable[[], None]:
    """Let each worker have states of its own on the GPUs it uses; `module` is ``cupy.random._generator``."""
    first = module._random_states  # noqa: SLF001 - CuPy finds it through this name
    ours = module._random_states = _Gpus(first)  # noqa: SLF001
    forgotten = Replaced(module, "reset_states", ours.clear)  # it would put another table there
    forgotten.put()

    def undo() -> None:
        forgotten.take()
        if module._random_states is ours:  # noqa: SLF001
            module._random_states = dict(ours)  # noqa: SLF001

    return undo


class HiddenGenerator(random.Random):
    """Python's hidden generator, ``random._inst``: does what the caller's does.

    NetworkX draws from it where it is given no seed. Seeds are given to `random.seed`, which is the worker's
    own: drawn from the process's generator, graphs would differ from run to run and from worker to worker.
    """

    __slots__ = ("_everyones", "_own")

    def __new__(cls, *_: Any) -> Self:
        """Do not take the arguments for seeds."""
        return super().__new__(cls)

    def __init__(self, everyones: random.Random, own: PerWorker[random.Random]) -> None:
        object.__setattr__(self, "_everyones", everyones)
        object.__setattr__(self, "_own", own)

    def __getattribute__(self, name: str) -> Any:
        return getattr(_of_caller(self), name)

    def __setattr__(self, name: str, value: Any) -> None:  # `gauss` keeps its second number there
        setattr(_of_caller(self), name, value)


def _of_caller(hidden: HiddenGenerator) -> random.Random:
    mine: random.Random | None = object.__getattribute__(hidden, "_own").mine()
    everyones: random.Random = object.__getattribute__(hidden, "_everyones")
    return everyones if mine is None else mine
