"""What is behind an error that a library has raised from another one."""

from __future__ import annotations

from typing import Any, Final

from disco_magic.libraries import OURS, is_of_library
from disco_magic.phrases import headline

_CAUSE: Final = BaseException.__dict__["__cause__"]
_TRACEBACK: Final = BaseException.__dict__["__traceback__"]
_MODULE: Final = type.__dict__["__module__"]
_DEEPEST: Final = 10
# JAX puts stack traces in the place of causes.
_NO_CAUSES: Final = ("jax", "jaxlib")


def behind(error: BaseException) -> BaseException:
    """The error in the user's code from which a library raised this one; itself if there is none.

    PyTorch's pipelines say which stage has failed, in an error of their own. The attributes are read from
    `BaseException`, because a class of the user's may have properties of these names.
    """
    found = error
    for _ in range(_DEEPEST):
        cause = _CAUSE.__get__(error)
        if cause is None or not is_of_library(_files(error)[-1]) or _home_of(cause) in _NO_CAUSES:
            break
        error = cause
        if not all(map(is_of_library, _files(error))):
            found = error
    return found


def origin(error: BaseException) -> str:
    """`` - from ValueError: ...``: what is behind the error; "" if nothing is."""
    first = behind(error)
    return "" if first is error else f" - from {headline(first)}"


def _files(error: BaseException) -> list[str]:
    """The files of its traceback, the innermost last; without any, our folder."""
    step: Any = _TRACEBACK.__get__(error)
    files = []
    while step is not None:
        files.append(step.tb_frame.f_code.co_filename)
        step = step.tb_next
    return files or [OURS]


def _home_of(error: BaseException) -> str:
    return str(_MODULE.__get__(type(error))).partition(".")[0]
