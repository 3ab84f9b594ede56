"""Collectives in programs that TVM compiled: ``relax.op.ccl.allreduce`` and the like.

Such a program calls global functions of TVM's Disco, which look for a worker of TVM's own. Here those names
get functions that do the same on our data plane if one of our workers calls them; for other callers they stay
what they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.errors import UsageMistake
from disco_magic.functions.registry import find_func
from disco_magic.functions.tvm_values import callback, ffi_module
from disco_magic.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable

_COLLECTIVES: Final = tuple(
    f"runtime.disco.{name}"
    for name in (
        "allreduce",
        "allgather",
        "broadcast_from_worker0",
        "scatter_from_worker0",
        "gather_to_worker0",
    )
)
_MESSAGES: Final = tuple(
    f"runtime.disco.{name}"
    for name in (
        "send_to_worker",
        "recv_from_worker",
        "recv_from_worker0",
        "send_to_next_group",
        "recv_from_prev_group",
    )
)
_NUMBERS: Final = ("runtime.disco.worker_id", "runtime.disco.worker_rank")
# `ReduceKind` of TVM's Disco, which is passed as a shape of one number.
_OPS: Final = ("sum", "prod", "min", "max", "avg")

_lock = new_lock()
_installed: set[str] = set()


def install() -> None:
    """Replace TVM's functions by ours, once per process, before a program of TVM's is loaded."""
    with _lock:
        ffi = ffi_module()
        for name in (*_COLLECTIVES, *_MESSAGES, *_NUMBERS):
            if name not in _installed:
                original = ffi.get_global_func(name, allow_missing=True)
                ours = callback(_function(name))
                ffi.register_global_func(name, _where_it_is_called(name, ours, original), override=True)
                _installed.add(name)


def _function(name: str) -> Callable[..., Any]:
    function = find_func(name)
    if name in _NUMBERS:
        return lambda: ffi_module().Shape((function(),))  # the form in which a number travels in a program
    return _collective(name, function) if name in _COLLECTIVES else _message(function)


def _where_it_is_called(name: str, ours: Callable[..., Any], original: Any) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        if calling_worker() is not None:
            return ours(*args)
        if original is None:
            raise UsageMistake(f"{name} was called outside of a worker")
        return original(*args)

    return call


def _collective(name: str, function: Callable[..., Any]) -> Callable[..., None]:
    """For ``(source, ..., in_group, target)``; `in_group` is passed as 0 or 1, a reduction as a shape."""

    def call(source: Any, *args: Any) -> None:
        *kind, in_group, target = args
        function(source, *(_op(name, each) for each in kind), bool(in_group), target)

    return call


def _op(name: str, kind: Any) -> str:
    number = kind[0]
    if not 0 <= number < len(_OPS):
        raise UsageMistake(
            f"{name}: there is no reduction {number}; 0 to {len(_OPS) - 1} are {', '.join(_OPS)}"
        )
    return _OPS[number]


def _message(function: Callable[..., Any]) -> Callable[..., None]:
    def call(*args: Any) -> None:
        function(*args)  # it receives into the destination, which is TVM's own memory

    return call
