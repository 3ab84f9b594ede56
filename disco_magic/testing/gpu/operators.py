"""Operators of arrays, and indexing: reading and writing parts of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from disco_magic.testing.gpu import operations

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.testing.gpu.world import World


def _parts(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _is_array(world: World, part: Any) -> bool:
    return isinstance(part, (world.cupy.ndarray, np.ndarray, list, bool, np.bool_))


def is_basic(world: World, index: Any) -> bool:
    """Whether an index selects a view, because it contains no arrays."""
    return not any(_is_array(world, part) for part in _parts(index))


def view(raw: Any, index: Any) -> Any:
    """The view that a basic index selects; for a single element a 0-d array."""
    parts = _parts(index)
    return raw[parts if any(part is Ellipsis for part in parts) else (*parts, Ellipsis)]


def _for_work(world: World, index: Any, *, masks_on_host: bool) -> tuple[Any, ...]:
    """The index with its device arrays as views of memory, and its host arrays copied."""
    made: list[Any] = []
    for part in _parts(index):
        if isinstance(part, world.cupy.ndarray):
            # Only the host can find out how many elements a mask selects; CuPy waits for it, too.
            made.append(
                part.get() if masks_on_host and part.dtype == bool else operations.operand(world, part)
            )
        else:
            made.append(np.array(part) if isinstance(part, (list, np.ndarray)) else part)
    return tuple(made)


def _stand_in(part: Any) -> Any:
    return np.zeros(part.shape, np.intp) if isinstance(part, np.ndarray) and part.dtype != bool else part


def take(world: World, array: Any, index: Any) -> Any:
    """Copy the elements that an index with arrays selects; wait for the stream only if there is a mask.

    An index beyond the end breaks the device. A real GPU silently wraps it around.
    """
    raw, parts = operations.operand(world, array), _for_work(world, index, masks_on_host=True)
    shape = np.broadcast_to(np.empty((), np.uint8), raw.shape)[tuple(map(_stand_in, parts))].shape
    out = operations.empty(world, shape, raw.dtype)
    return operations.put(world, out, lambda: raw[parts])


def assign(world: World, array: Any, index: Any, value: Any) -> None:
    """Write an array or a scalar into a part of an array."""
    raw = operations.operand(world, array)
    if isinstance(value, np.ndarray):
        if value.shape:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        value = value.item()
    source = operations.operand(world, value)
    if is_basic(world, index):
        target = view(raw, index)
        np.broadcast_to(np.broadcast_to(np.empty((), np.uint8), operations.shape_of(source)), target.shape)

        def work() -> None:
            np.copyto(target, source, casting="unsafe")
    else:
        parts = _for_work(world, index, masks_on_host=False)

        def work() -> None:
            raw[parts] = source

    world.launch(work)


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
