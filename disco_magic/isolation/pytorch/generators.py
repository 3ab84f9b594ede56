"""A PyTorch generator for each worker, and PyTorch's own generator with a worker's state for a while."""

from __future__ import annotations

from threading import get_ident
from typing import Any, NamedTuple

from disco_magic.callers.current import calling_worker
from disco_magic.callers.per_worker import PerWorker
from disco_magic.threads.locks import new_rlock


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
