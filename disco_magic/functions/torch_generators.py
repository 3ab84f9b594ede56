"""A generator of PyTorch's for each worker, and PyTorch's own with such a generator's state for a while."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

from disco_magic.functions.context import calling_worker
from disco_magic.functions.per_worker import PerWorker

if TYPE_CHECKING:
    from collections.abc import Iterable


class Generators(PerWorker[Any]):
    """The workers' generators.

    Args:
        torch: PyTorch.
    """

    def __init__(self, torch: Any) -> None:
        super().__init__(self.begin)
        self.torch = torch
        self.everyones = torch.default_generator
        self.lock = RLock()
        self.tenant: Any = None  # whose state `everyones` has
        self._plain = (torch.Tensor, torch.nn.Parameter)
        keys = torch._C._TorchDispatchModeKey  # noqa: SLF001 - how it is asked who watches has no public name
        self._tracers = (keys.FAKE, keys.PROXY, keys.FUNCTIONAL)

    def begin(self) -> Any:
        """A generator that begins at random."""
        generator = self.torch.Generator()
        generator.seed()
        return generator

    def can_serve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call with these arguments can draw from a worker's generator."""
        return self._is_here(args, kwargs) and not self._is_traced()

    def _is_here(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether it computes on the CPU."""
        device = kwargs.get("device")
        if device is None:
            given = (*args, *kwargs.values())
            tensor = next((each for each in given if isinstance(each, self.torch.Tensor)), None)
            if tensor is not None:
                device = tensor.device
            elif self.has_others(given):
                return False  # it only writes down what is called
            elif not self.torch._C._len_torch_function_stack():  # noqa: SLF001 - what is public takes 3 us
                device = self.torch._C._get_default_device()  # noqa: SLF001
            else:
                device = self.torch.get_default_device()
        kind = device if isinstance(device, str) else self.torch.device(device).type
        return bool(kind.partition(":")[0] == "cpu")

    def has_others(self, given: Iterable[Any]) -> bool:
        """Whether there is something among that with its own idea of PyTorch's functions: a DTensor."""
        return any(
            type(each) not in self._plain and hasattr(type(each), "__torch_function__") for each in given
        )

    def _is_traced(self) -> bool:
        """Whether somebody is writing down what is computed: a generator is nothing that can be written."""
        c = self.torch._C  # noqa: SLF001
        if c._get_tracing_state() is not None:  # noqa: SLF001
            return True
        if not c._len_torch_dispatch_stack():  # noqa: SLF001
            return False
        return any(c._get_dispatch_mode(each) is not None for each in self._tracers)  # noqa: SLF001

    def seed_gpu(self, seed: int) -> None:
        """Seed the state of the worker's GPU; nothing if it uses none."""
        cuda, me = self.torch.cuda, calling_worker()
        if cuda._is_in_bad_fork() or not cuda.is_available():  # noqa: SLF001 - PyTorch asks so, too
            return
        if cuda.is_initialized() or (me is not None and me.device != "cpu"):
            cuda.init()  # else it is the GPU of whoever does that
            cuda.manual_seed(seed)


class Loan:
    """Meanwhile PyTorch's state is that of a worker's generator. Workers are not struck as it begins or ends.

    Args:
        states: the workers'.
        mine: the generator.
    """

    def __init__(self, states: Generators, mine: Any) -> None:
        self._states, self._mine = states, mine
        self._of_process: Any = None

    def __enter__(self) -> None:
        self._states.lock.acquire()
        try:
            if self._states.tenant is None:
                self._of_process = self._states.everyones.get_state()
                self._states.everyones.set_state(self._mine.get_state())
                self._states.tenant = self
        except BaseException:
            self._states.lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            if self._states.tenant is self:
                self._states.tenant = None
                self._mine.set_state(self._states.everyones.get_state())
                self._states.everyones.set_state(self._of_process)
        finally:
            self._states.lock.release()
