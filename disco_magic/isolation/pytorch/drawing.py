"""Replacements of PyTorch's functions that draw random numbers, or that seed, save and restore the state."""

from __future__ import annotations

from threading import get_ident
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.stand_ins import StandIn
from disco_magic.isolation.pytorch.generators import Generators, Loan, Mine

if TYPE_CHECKING:
    from collections.abc import Callable

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
