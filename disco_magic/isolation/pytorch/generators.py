"""A PyTorch generator for each worker, PyTorch's own with a worker's state for a while, and who draws there.

That is what replaces PyTorch's functions that draw random numbers, or that seed, save and restore the state.
"""

from __future__ import annotations

from threading import get_ident
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.current import calling_worker
from disco_magic.callers.per_worker import PerWorker
from disco_magic.callers.stand_ins import StandIn
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable


class Mine(NamedTuple):
    """What a worker draws from.

    Attributes:
        generator: a PyTorch generator, on the CPU.
        lock: held while drawing; otherwise the worker's threads would restore older states.
    """

    generator: Any
    lock: Any


class Generators(PerWorker[Mine]):
    """The workers' generators.

    Attributes:
        everyones: PyTorch's own generator.
        lock: guards `everyones`.
        borrower: the thread of the worker whose state is in `everyones`; None: it has its own state.
    """

    def __init__(self, torch: Any) -> None:
        super().__init__(self.begin)
        self.torch = torch
        self.everyones = torch.default_generator
        self.lock = new_rlock()
        self.borrower: int | None = None
        self._is_other: dict[type, bool] = {}
        self._tensors: set[type] = set()
        keys = torch._C._TorchDispatchModeKey  # noqa: SLF001 - there is no public name for this
        self._tracers = (keys.FAKE, keys.PROXY, keys.FUNCTIONAL)

    def begin(self) -> Mine:
        """Return a generator with a random state."""
        generator = self.torch.Generator()
        generator.seed()
        return Mine(generator, new_rlock())

    def can_serve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call with these arguments can draw from a worker's generator.

        Only on the CPU; not while operations are traced, because a generator cannot be recorded; and not for
        arguments that override PyTorch's functions, and in the end call others, as DTensors do.
        """
        tensor = None
        for each in (*args, *kwargs.values()) if kwargs else args:
            kind = type(each)
            is_other = self._is_other.get(kind)
            if self._learn(kind) if is_other is None else is_other:
                return False
            if tensor is None and kind in self._tensors:
                tensor = each
        device = kwargs.get("device")
        is_here = self._is_cpu(device) if tensor is None or device is not None else tensor.is_cpu
        return bool(is_here) and not self._is_traced()

    def _is_cpu(self, device: Any) -> bool:
        """Whether new tensors are on the CPU, for this `device` argument."""
        if device is None and not self.torch._C._len_torch_function_stack():  # noqa: SLF001
            device = self.torch._C._get_default_device()  # noqa: SLF001 - the public function takes 3 us
        elif device is None:
            device = self.torch.get_default_device()
        kind: str = device if isinstance(device, str) else self.torch.device(device).type
        return kind.partition(":")[0] == "cpu"

    def _learn(self, kind: type) -> bool:
        plain = self.torch.Tensor
        function = getattr(kind, "__torch_function__", None)
        disabled = self.torch._C._disabled_torch_function_impl  # noqa: SLF001
        ordinary = (plain.__torch_function__.__func__, disabled)
        is_other = function is not None and (
            getattr(function, "__func__", function) not in ordinary
            or getattr(kind, "__torch_dispatch__", None) is not plain.__torch_dispatch__
        )
        if issubclass(kind, plain):
            self._tensors.add(kind)
        self._is_other[kind] = is_other
        return is_other

    def _is_traced(self) -> bool:
        c = self.torch._C  # noqa: SLF001
        if c._get_tracing_state() is not None:  # noqa: SLF001
            return True
        if not c._len_torch_dispatch_stack():  # noqa: SLF001
            return False
        return any(c._get_dispatch_mode(each) is not None for each in self._tracers)  # noqa: SLF001

    def is_mapped(self) -> bool:
        """Whether `torch.vmap` calls: given a generator, it draws as if its randomness were "different"."""
        return self.torch._C._functorch.peek_interpreter_stack() is not None  # noqa: SLF001

    def seed_gpu(self, seed: int) -> None:
        """Seed the state of the worker's GPU; do nothing if it uses none."""
        cuda, me = self.torch.cuda, calling_worker()
        if cuda._is_in_bad_fork() or not cuda.is_available():  # noqa: SLF001 - as PyTorch does
            return
        if cuda.is_initialized() or (me is not None and me.device != "cpu"):
            cuda.init()  # otherwise the GPU of the thread that does so would be seeded
            cuda.manual_seed(seed)


class Loan:
    """Gives PyTorch's generator a worker's state. Workers are not interrupted where a loan begins or ends.

    Args:
        states: the workers' generators.
        mine: what the calling worker draws from; within a loan of its thread nothing is borrowed again.
    """

    def __init__(self, states: Generators, mine: Mine) -> None:
        self._states, self._mine = states, mine
        self._of_process: Any = None

    def __enter__(self) -> None:
        states = self._states
        self._mine.lock.acquire()
        states.lock.acquire()
        try:
            if states.borrower is None:
                self._of_process = states.everyones.get_state()
                states.everyones.set_state(self._mine.generator.get_state())
                states.borrower = get_ident()
        except BaseException:
            states.lock.release()
            self._mine.lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        states = self._states
        try:
            if self._of_process is not None:
                self._mine.generator.set_state(states.everyones.get_state())
                states.everyones.set_state(self._of_process)
                states.borrower = None
        finally:
            states.lock.release()
            self._mine.lock.release()


_FIFTH: Final = slice(4, 5)  # position of attention's dropout probability


class Drawing(StandIn):
    """A function that draws from a worker's state, which replaces the process's meanwhile.

    Args:
        first, place: see `StandIn`.
        states: the workers' generators.
        draws: whether a call with given arguments draws; None: always.
    """

    def __init__(
        self,
        first: Callable[..., Any],
        place: str,
        states: Generators,
        draws: Callable[..., bool] | None = None,
    ) -> None:
        super().__init__(first, place)
        self._states, self._draws = states, draws

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function on the worker's state."""
        __tracebackhide__ = True
        mine = self._states.mine()
        if mine is None:
            with self._states.lock:  # not while a worker's state is in there
                return self.first(*args, **kwargs)
        if not self._may_draw(args, kwargs) or not self._states.can_serve(args, kwargs):
            return self.first(*args, **kwargs)
        return self._draw(mine, args, kwargs)

    def _may_draw(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        try:
            return self._draws is None or self._draws(*args, **kwargs)
        except (TypeError, ValueError, RuntimeError):
            return False  # the function itself raises the error

    def _draw(self, mine: Mine, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with Loan(self._states, mine):
            return self.first(*args, **kwargs)


class Given(Drawing):
    """A drawing function that takes a generator; `seeded` does, if it is another overload."""

    seeded: Callable[..., Any] | None = None

    def _may_draw(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if args and isinstance(args[-1], self._states.torch.Generator):  # as in `poisson(x, generator)`
            return False
        # The process's generator is the default of `random_split`.
        return kwargs.get("generator") in (None, self._states.everyones)

    def _draw(self, mine: Mine, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._states.borrower == get_ident() or self._states.is_mapped():
            return super()._draw(mine, args, kwargs)
        call = self.seeded or self.first
        seeded = args, kwargs | {"generator": mine.generator}
        if (
            args and args[-1] is None and "generator" not in kwargs
        ):  # in its place, as compiled graphs write it
            seeded = (*args[:-1], mine.generator), kwargs
        try:
            with mine.lock:
                return call(*seeded[0], **seeded[1])
        except TypeError:
            pass  # it mentions the generator: the error is to show what the caller has written
        return self.first(*args, **kwargs)


class Method(Given):
    """A drawing method of a tensor."""

    def __get__(self, holder: Any, kind: type | None = None) -> Any:
        return self if holder is None else MethodType(self, holder)

    def __reduce__(self) -> Any:
        return getattr, (self._states.torch.Tensor, self.name)


class Dropout(Drawing):
    """Dropout, in the steps in which PyTorch computes it on the CPU; other workers can draw meanwhile."""

    def _draw(self, mine: Mine, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x, p = args[0] if args else kwargs["input"], args[1] if len(args) > 1 else kwargs["p"]
        if x.is_nested or type(p) not in (float, int):
            return super()._draw(mine, args, kwargs)
        mask = self._states.torch.empty_like(x).bernoulli_(1 - p).div_(1 - p)
        return x.mul_(mask) if self.name.endswith("_") else x * mask


class Keeping(Drawing):
    """A function that seeds, saves or restores the state; on a worker `act` does that."""

    def __init__(
        self, first: Callable[..., Any], place: str, states: Generators, act: Callable[..., Any]
    ) -> None:
        super().__init__(first, place, states)
        self._act = act

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, or on a worker `act` with its generator."""
        __tracebackhide__ = True
        mine = self._states.mine()
        if mine is None:
            return super().__call__(*args, **kwargs)
        with mine.lock:
            return self._act(mine.generator, *args, **kwargs)


def drops(_: Any = None, p: Any = 0.0, train: Any = False, **__: Any) -> bool:  # noqa: FBT002 - PyTorch's
    """Whether a dropout with these arguments draws."""
    return train is True and bool(0 < p < 1)


def layer_drops(*args: Any, **kwargs: Any) -> bool:
    """Whether a recurrent layer draws: its dropout probability is its only argument that is a float."""
    return any(type(each) is float and each > 0 for each in (*args, kwargs.get("dropout")))


def attention_drops(*args: Any, dropout_p: float = 0.0, **_: Any) -> bool:
    """Whether attention draws; `dropout_p` may also be given by position, as the fifth argument."""
    return bool((*args[_FIFTH], dropout_p)[0] > 0)
