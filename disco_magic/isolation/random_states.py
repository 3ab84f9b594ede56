"""Random states that a module keeps for its process: `random`'s, NumPy's, CuPy's. Each worker has its own.

Programs seed them as processes do, ``np.random.seed(0)`` on every rank for numbers that are equal on all. Of
one state that all workers draw from in turns nobody knows what each would get. As long as any session runs,

1. the functions of `random` and `numpy.random` that draw from it, seed it, keep it or put it back do so with
   a state of the worker that calls; for everybody else they do what they did;
2. who has NumPy's state itself, as SciPy and scikit-learn do, finds the worker's in it while drawing;
3. CuPy looks for the state of a GPU where the worker's is: workers that share one would have that in common.

A worker's states begin at random and end with it. They are its threads', too. For PyTorch: `pytorch.random`.
A call takes about 0.5 us more, in the notebook as well; 0.1 ms where who has the state itself draws after who
has its functions, or the other way round.
"""

from __future__ import annotations

import os
import random
from _thread import RLock
from contextvars import Context
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.per_worker import PerWorker
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.callers.stand_ins import StandIn, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

# Functions of `numpy.random` that are no methods of a state -> what they are there.
_NO_METHODS: Final = {"sample": "random_sample", "ranf": "random_sample"}
# Before 2.4 they wait for nobody who is drawing.
_HASTY: Final = ("seed", "get_state", "set_state")


class StateFunction(StandIn):
    """A function that acts on the random state of the worker that calls it, and for others on the process's.

    Args:
        first, place: see `StandIn`.
        method: what it is called as a method of a state.
        own: the workers' states.
        others: what it does for others; None: as `first`.
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
        """What the function gives of the worker's state."""
        __tracebackhide__ = True
        mine = self._own.mine()
        call = self._others if mine is None else getattr(mine, self._method)
        return call(*args, **kwargs)


class _LockOfNumpy(RLock):  # type: ignore[misc]  # at run time it may be derived from
    """The lock of NumPy's one state: who has it finds there what it is to draw from.

    A worker's state stays in it until somebody else takes it; what gives the lock back is C code, so that
    nothing strikes in between. Workers are not struck in ``__enter__``, see `fragile`.

    Args:
        everyones: NumPy's state.
        whose: gives the state of whoever calls; None of who is no worker.

    Attributes:
        tenant: whose state is in it; None: its own, which is the process's.
    """

    def __init__(self, everyones: Any, whose: Callable[[], Any]) -> None:
        self._everyones, self._whose = everyones, whose
        self._of_process: Any = None
        self._is_changing = False  # since 2.4 NumPy takes it for that, too
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
    """The workers' states of NumPy's older generator, with that which it draws from itself.

    Args:
        module: ``numpy.random.mtrand``.
    """

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
        """That of the calling worker, with what it has drawn by itself."""
        found = super().mine()
        if found is not None and found is self._lock.tenant:
            self.settle()
        return found

    def locked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call`, as who waits for those who are drawing."""

        def waiting(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            with self._lock:
                return call(*args, **kwargs)

        return waiting

    def settle(self) -> None:
        """Let it draw from the state of the process again."""
        _as_nobody(self._wait)

    def _wait(self) -> None:
        with self._lock:
            pass

    def lend(self) -> None:
        """From here on it draws from that of whoever has it draw."""
        self._first = self._module.get_bit_generator()
        self._lent = _with_lock(type(self._first), self._lock)
        _as_nobody(self._initialize, self._lent)

    def end(self) -> None:
        """Undo that, unless somebody has given it another bit generator meanwhile."""
        if self._module.get_bit_generator() is self._lent:
            _as_nobody(self._initialize, self._first)

    def _initialize(self, numbers: Any) -> None:
        with self._module.get_bit_generator().lock:
            state = self._everyones.get_state(legacy=False)
            self._module.set_bit_generator(numbers)
            self._everyones.set_state(state)


def _as_nobody(act: Callable[..., None], *args: Any) -> None:
    """Call that as no worker, which a worker's thread may do."""
    Context().run(act, *args)


def _with_lock(kind: Any, lock: _LockOfNumpy) -> Any:
    """A bit generator of that kind with another lock."""

    def reduce(self: Any) -> Any:
        made, args, *rest = kind.__reduce__(self)
        return (made, tuple(kind if each is own else each for each in args), *rest)

    # States say in which kind they are, by its name.
    own = type(kind.__name__, (kind,), {"lock": lock, "__reduce__": reduce, "__module__": kind.__module__})
    return own()


class _Gpus(dict[int, Any]):
    """CuPy's table GPU -> state, in which workers find entries of their own."""

    def __init__(self, everyones: Mapping[int, Any]) -> None:
        super().__init__(everyones)
        self._own: PerWorker[dict[int, Any]] = PerWorker(dict)

    def get(self, gpu: int, default: Any = None) -> Any:
        mine = self._own.mine()
        return super().get(gpu, default) if mine is None else mine.get(gpu, default)

    def setdefault(self, gpu: int, default: Any = None) -> Any:
        mine = self._own.mine()
        return super().setdefault(gpu, default) if mine is None else mine.setdefault(gpu, default)

    def __setitem__(self, gpu: int, state: Any) -> None:
        mine = self._own.mine()
        if mine is None:
            super().__setitem__(gpu, state)
        else:
            mine[gpu] = state

    def clear(self) -> None:
        mine = self._own.mine()
        if mine is None:
            super().clear()
        else:
            mine.clear()


# Once, as the functions that draw from them, see `standing`.
_OF_PYTHON: Final = PerWorker(random.Random)
_of_numpy: Final = cache(_OfNumpy)


def _begin_anew() -> None:
    """After a fork, in the child, where nobody is to draw what the parent does; so does `random`."""
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
    return replace_all([Replaced(module, each.name, each) for each in ours])


def fit_numpy(module: Any) -> Callable[[], None]:
    """Let each worker have a state of NumPy's older generator; `module` is ``numpy.random``."""
    states = _of_numpy(module.mtrand)
    ours = []
    for name in module.__all__:
        method, first = _NO_METHODS.get(name, name), getattr(module, name)
        if hasattr(module.RandomState, method):
            others = states.locked(first) if name in _HASTY else None
            ours.append(standing(StateFunction, first, "numpy.random", method, states, others))
    functions = [Replaced(place, each.name, each) for place in (module, module.mtrand) for each in ours]
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
    first = module._random_states  # noqa: SLF001 - it is found through this name, as above
    ours = module._random_states = _Gpus(first)  # noqa: SLF001
    forgotten = Replaced(module, "reset_states", ours.clear)  # it would put another table there
    forgotten.put()

    def undo() -> None:
        forgotten.take()
        if module._random_states is ours:  # noqa: SLF001
            module._random_states = dict(ours)  # noqa: SLF001

    return undo
