"""What is behind an error that a library has raised from another one."""

from __future__ import annotations

from typing import Any, Final

from disco_magic.libraries import is_of_library
from disco_magic.phrases import headline

_CAUSE: Final = BaseException.__dict__["__cause__"]
_TRACEBACK: Final = BaseException.__dict__["__traceback__"]
_MODULE: Final = type.__dict__["__module__"]
_DEEPEST: Final = 10
# JAX puts stack traces in the place of causes.
_NO_CAUSES: Final = ("jax", "jaxlib")


def behind(error: BaseException) -> BaseException:
    """The error from which a library raised this one, ``raise ... from``; itself if there is none.

    PyTorch's pipelines say which stage has failed, in an error of their own. The attributes are read from
    `BaseException`, because a class of the user's may have properties of these names.
    """
    for _ in range(_DEEPEST):
        cause = _CAUSE.__get__(error)
        if cause is None or not _is_raised_by_library(error) or _home_of(cause) in _NO_CAUSES:
            break
        error = cause
    return error


def origin(error: BaseException) -> str:
    """`` - from ValueError: ...``: what is behind the error; "" if nothing is."""
    first = behind(error)
    return "" if first is error else f" - from {headline(first)}"


def _is_raised_by_library(error: BaseException) -> bool:
    step: Any = _TRACEBACK.__get__(error)
    if step is None:
        return False
    while step.tb_next is not None:
        step = step.tb_next
    return is_of_library(step.tb_frame.f_code.co_filename)


def _home_of(error: BaseException) -> str:
    return str(_MODULE.__get__(type(error))).partition(".")[0]
