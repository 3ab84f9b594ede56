"""Operators of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from disco_magic.testing.gpu import operations

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.testing.gpu.world import World


_COMPARISONS: Final = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"})


def _is_foreign(self: Any, other: Any) -> bool:
    """Whether `other` may implement the operator itself; NumPy's arrays do not count: they are refused."""
    return not isinstance(other, (*operations.SCALARS, np.ndarray, self.world.cupy.ndarray))


def _forward(function: Any) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if _is_foreign(self, other):
            return NotImplemented
        return operations.elementwise(self.world, function, self, other)

    return method


def _operators(function: Any) -> tuple[Callable[[Any, Any], Any], ...]:
    """Make the methods for ``a + b``, ``b + a`` and ``a += b``."""

    def reflected(self: Any, other: Any) -> Any:
        if _is_foreign(self, other):
            return NotImplemented
        return operations.elementwise(self.world, function, other, self)

    def in_place(self: Any, other: Any) -> Any:
        if _is_foreign(self, other):
            return NotImplemented
        return operations.elementwise(self.world, function, self, other, out=self)

    return _forward(function), reflected, in_place


def _unary(function: Any) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return operations.elementwise(self.world, function, self)

    return method


class Operators:
    """Mixin of the operators; `world` is set by the class that uses it."""

    __slots__ = ()
    world: ClassVar[World]
    __hash__ = None  # type: ignore[assignment]

    __add__, __radd__, __iadd__ = _operators(np.add)
    __sub__, __rsub__, __isub__ = _operators(np.subtract)
    __mul__, __rmul__, __imul__ = _operators(np.multiply)
    __truediv__, __rtruediv__, __itruediv__ = _operators(np.true_divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _operators(np.floor_divide)
    __mod__, __rmod__, __imod__ = _operators(np.remainder)
    __pow__, __rpow__, __ipow__ = _operators(np.power)
    __and__, __rand__, __iand__ = _operators(np.bitwise_and)
    __or__, __ror__, __ior__ = _operators(np.bitwise_or)
    __xor__, __rxor__, __ixor__ = _operators(np.bitwise_xor)
    __lshift__, __rlshift__, __ilshift__ = _operators(np.left_shift)
    __rshift__, __rrshift__, __irshift__ = _operators(np.right_shift)
    __lt__, __le__ = _forward(np.less), _forward(np.less_equal)
    __gt__, __ge__ = _forward(np.greater), _forward(np.greater_equal)
    __eq__, __ne__ = _forward(np.equal), _forward(np.not_equal)
    __neg__, __pos__, __abs__ = _unary(np.negative), _unary(np.positive), _unary(np.absolute)
    __invert__ = _unary(np.invert)

    def __matmul__(self, other: Any) -> Any:
        return operations.product(self.world, np.matmul, self, other)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Let ``np.exp(array)`` be ``cupy.exp(array)``."""
        function = getattr(self.world.cupy, ufunc.__name__, None)
        if method != "__call__" or function is None:
            return NotImplemented
        if "out" in options:
            (options["out"],) = options["out"]
        if ufunc.__name__ in _COMPARISONS:  # these get NumPy's scalars as 0-d arrays
            inputs = tuple(x.item() if isinstance(x, np.ndarray) and not x.ndim else x for x in inputs)
        return function(*inputs, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Let ``np.sum(array)`` be ``cupy.sum(array)``."""
        own = getattr(self.world.cupy, function.__name__, None)
        return NotImplemented if own is None or own is function else own(*args, **kwargs)
