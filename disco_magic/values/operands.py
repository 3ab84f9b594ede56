"""What the expression that failed has read on a worker, described."""

from __future__ import annotations

import ast
import dis
import inspect
import logging
import math
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.callers.failed_expression import failed_at, step_of_user, was_kept
from disco_magic.callers.namespaces import beside
from disco_magic.callers.tracebacks import error_text, shorten
from disco_magic.core.words import plural
from disco_magic.errors import DiscoError, Failure
from disco_magic.errors.causes import behind
from disco_magic.errors.operands import Operands
from disco_magic.values.describe import SHORT, describe, elements_text
from disco_magic.values.described import short
from disco_magic.values.fingerprint import CONTAINER_IDS, PLAIN_IDS
from disco_magic.values.frames import is_frame
from disco_magic.values.members import NOTHING
from disco_magic.values.reading import (
    bound_within,
    chains_in,
    follow,
    is_data,
    is_same_everywhere,
    names_in,
)
from disco_magic.values.samples import nans_and_infs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import FrameType

    from disco_magic.callers.failed_expression import FailedExpression
    from disco_magic.core.snapshot import RegisterInfo

_LOG: Final = logging.getLogger("disco_magic")
_NAMES: Final = 8
_NOWHERE: Final = -1  # an offset before all instructions
_PATHS: Final = 32
# Larger arrays and containers are not looked into: the others of a failed worker's group are waiting.
_ELEMENTS: Final = 1 << 16
_ITEMS: Final = 1 << 12
_BINDING_GLOBALS: Final = ("STORE_GLOBAL", "DELETE_GLOBAL")
_BINDING: Final = ("STORE_FAST", "STORE_NAME", "STORE_DEREF", "DELETE_", *_BINDING_GLOBALS)
# Saved notebooks are shown to others.
_SECRET: Final = (
    "passw",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "credential",
    "api_key",
    "apikey",
    "private_key",
)


def failure_of(worker: int, seq: int, command: str, error: BaseException) -> Failure:
    """The `Failure` for `error` on a worker, without the runtime's frames; `command` in words."""
    shorten(error)
    return Failure(worker, seq, command, error, error_text(error), operands_of(error))


def operands_of(error: BaseException) -> Operands | None:
    """What the expression that raised `error` has read; None if there is nothing to say.

    It is the innermost one of the user's code. Errors of this package say enough, and so do interrupts. Cost:
    25 to 150 us.
    """
    if not issubclass(type(error), Exception) or issubclass(type(error), DiscoError):
        return None
    with _unfailing():
        cause = behind(error)
        failed = failed_at(step_of_user(cause))
        return None if failed is None else _operands(failed, gone_on=was_kept(cause, failed.frame))
    return None


@contextmanager
def _unfailing() -> Iterator[None]:
    """Only log what goes wrong in the block, where objects are as odd as can be: the error itself matters."""
    try:
        yield
    except (Exception, SystemExit):  # noqa: BLE001 - see above
        _LOG.debug("what a failed expression has read could not be described", exc_info=True)


def _operands(failed: FailedExpression, *, gone_on: bool) -> Operands | None:
    read: dict[str, Any] = {}
    last = _NOWHERE if gone_on else failed.frame.f_lasti
    lost = _bound_since(failed.frame.f_code, failed.offset, last) | bound_within(failed.node)
    for path in chains_in(failed.node):
        if not lost.isdisjoint(names_in(path)):
            continue
        found = [*follow(path, partial(_value_of, failed.frame))]
        if path is failed.changed and found and found[-1].path == ast.unparse(path):
            continue
        if len(found) > 1 and is_same_everywhere(found[-1].value):
            found.pop()  # a method: of an array or a container that says more than itself
            found = found[-1:] if is_data(found[-1].value) else []
        if found and not is_same_everywhere(found[-1].value):
            read.setdefault(*found[-1])
    if not read:
        return None
    described = {name: _described(name, value) for name, value in list(read.items())[:_NAMES]}
    return Operands(short(failed.text), str(failed.line), described, len(read) - len(described))


@lru_cache(64)  # a loop of calls that fail asks for the same
def _bound_since(code: CodeType, offset: int, last: int) -> set[str]:
    """Variables that may have been bound again since an instruction has failed: their values are lost.

    Its handlers may have done so, in ``except`` and ``finally``, and from 3.12 on after comprehensions, which
    end by restoring the variables around them. Code below those is taken for a part of them, so that this is
    too many. If the `last` instruction that was executed is neither that one nor in a handler, the code has
    gone on, and the error, which it has kept, was raised again: all variables that it binds are lost.
    """
    entries = _exception_entries(code)
    begin = _handlers(entries, offset)
    if last != offset and (begin is None or last < begin or not _is_in_handler(code, entries, last)):
        begin = 0
    return set() if begin is None else _bound_by(code, begin, _BINDING)


def _is_in_handler(code: CodeType, entries: list[Any], offset: int) -> bool:
    """Whether an instruction is in an ``except`` or ``finally``.

    These are covered themselves, by what restores the error that was handled before. So are ``with`` blocks,
    by the call of ``__exit__``.
    """
    covering = [each.target for each in entries if each.lasti and each.start <= offset < each.end]
    return any(dis.opname[code.co_code[target + 2]] != "WITH_EXCEPT_START" for target in covering)


def _exception_entries(code: CodeType) -> list[Any]:
    """Which handler follows on which instructions; see ``dis``."""
    if not code.co_exceptiontable:
        return []
    return [*dis.Bytecode(code).exception_entries]  # type: ignore[attr-defined]  # typeshed lacks it


def _handlers(entries: list[Any], offset: int) -> int | None:
    """Where the handlers of an instruction begin; None if there are none."""
    begin, at = None, offset
    while (entry := next((each for each in entries if each.start <= at < each.end), None)) is not None:
        if begin is not None and entry.target <= at:
            break
        at = entry.target
        begin = at if begin is None else min(begin, at)
    return begin


def _bound_by(code: CodeType, begin: int, binding: tuple[str, ...]) -> set[str]:
    """The names in instructions of these kinds, from `begin` on."""
    found: set[str] = set()
    for each in dis.get_instructions(code):
        if each.offset >= begin and each.opname.startswith(binding):
            found.update(each.argval if isinstance(each.argval, tuple) else (each.argval,))
    return found


def _value_of(frame: FrameType, name: str) -> Any:
    """The value of a name of the user's; names that every cell has are none."""
    own: Mapping[str, Any] = frame.f_locals
    # The body of a class may have a mapping of the user's.
    is_plain = type(own) is dict or frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if is_plain and name in own:
        return own[name]
    code = frame.f_code
    if name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        return NOTHING  # not bound yet, whatever is global under this name
    return dict.get(frame.f_globals, name, NOTHING)


def with_others(failures: Mapping[int, Failure], workers: Iterable[int]) -> dict[int, Failure]:
    """The failures of a cell; the origin's has the operands of those of `workers` where it did not fail.

    Only if a line of the cell itself has failed, and only names that the cell does not bind again, later or
    in the same loop: of these the other workers have what the expression reads there. All have ended.
    """
    told = dict(failures)
    with _unfailing():
        _add_others(told, workers)
    return told


def _add_others(told: dict[int, Failure], workers: Iterable[int]) -> None:
    origin = next(iter(told.values()))
    operands, failed = origin.operands, failed_at(step_of_user(behind(origin.exception)))
    if operands is None or failed is None or failed.frame.f_locals is not failed.frame.f_globals:
        return
    have = beside(failed.frame.f_globals)
    bound = _bound_later(failed)
    paths = [path for path in islice(chains_in(failed.node), _PATHS) if names_in(path).isdisjoint(bound)]
    others = {
        worker: dict(_read_alike(paths, partial(dict.get, have[worker]), operands))
        for worker in workers
        if worker in have and worker not in told  # one that has failed elsewhere may not have come so far
    }
    others = {worker: values for worker, values in others.items() if values}
    told[origin.worker] = replace(origin, operands=operands._replace(others=others))


def _read_alike(
    paths: Iterable[ast.expr], get: Callable[[str, Any], Any], operands: Operands
) -> Iterator[tuple[str, str]]:
    """Yield what the same paths lead to on another worker."""
    for path in paths:
        for name, value in follow(path, lambda name: get(name, NOTHING)):
            if name in operands.values:
                yield name, _described(name, value)


def _bound_later(failed: FailedExpression) -> set[str]:
    """The names that the cell may bind once it has come to the failed expression."""
    code, offset = failed.frame.f_code, failed.offset
    jumps = (each for each in dis.get_instructions(code) if "JUMP_BACKWARD" in each.opname)
    loops = [each.argval for each in jumps if each.argval <= offset <= each.offset]
    bound = _bound_by(code, min(loops, default=offset), _BINDING)
    return bound.union(*(_bound_by(each, 0, _BINDING_GLOBALS) for each in _nested(code)))


def _nested(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _nested(each)


def _described(name: str, value: Any) -> str:
    kind = type(value)
    is_container = id(kind) in CONTAINER_IDS
    if is_container and len(value) > _ITEMS:
        return f"{kind.__name__}, {plural(len(value), 'item')}"
    info = describe(value, 0)
    if id(kind) in PLAIN_IDS:
        secret = kind in (str, bytes) and any(each in name.lower() for each in _SECRET)
        return f"{kind.__name__} of length {len(value)}" if secret else info.text
    if info.device in (None, "cpu") and not is_frame(kind) and _is_small(info):
        # Statistics, which `describe` makes for tables, would take most of the time.
        info = _with_elements(info, value) if kind is np.ndarray else describe(value, _ELEMENTS)
    if is_container and any(each in f"{name} {info.text}".lower() for each in _SECRET):
        info = replace(info, text=plural(len(value), "item"))
    return _in_words(info)


def _is_small(info: RegisterInfo) -> bool:
    return info.shape is None or math.prod(info.shape) <= _ELEMENTS


def _with_elements(info: RegisterInfo, array: np.ndarray[Any, Any]) -> RegisterInfo:
    """Add the elements of a short array, or how many of another one are NaN or infinite."""
    if array.dtype.hasobject:
        return info
    if array.size <= SHORT:
        return replace(info, text=elements_text(array))
    if array.dtype.kind not in "fc":
        return info
    nans, infs = nans_and_infs(array)
    return replace(info, nans=nans, infs=infs)


def _in_words(info: RegisterInfo) -> str:
    """``float32 2x3 on cuda:0, 3 NaN``, with a multiplication sign."""
    if info.shape is None and info.type in info.text.partition("(")[0]:
        return info.text  # ``pathlib.Path('x')``, ``Color.RED``
    parts = [info.kind + (f" on {info.device}" if info.device not in (None, "cpu") else "")]
    if info.text:
        parts[0] += f" {info.text}"
    parts += [f"{count:,} {what}" for count, what in ((info.nans, "NaN"), (info.infs, "inf")) if count]
    return ", ".join(parts)
