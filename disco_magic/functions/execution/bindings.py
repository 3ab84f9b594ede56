"""What code binds: names that a cell stores or that hold another object than before; a result's names."""

from __future__ import annotations

import dis
import opcode
import types
import weakref
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.registers import RegisterFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Holder = Callable[[], Any]

_STORES: Final = ("STORE_NAME", "STORE_GLOBAL")
_DELETES: Final = ("DELETE_NAME", "DELETE_GLOBAL")
_DELETE_CODES: Final = frozenset(opcode.opmap[name] for name in _DELETES)
# May come between a call and the stores of its result: ``a = b = f()``, ``a, b = f()``.
_PASSING: Final = ("COPY", "UNPACK_SEQUENCE", "EXTENDED_ARG")
# The name of a cell's code object.
MODULE: Final = "<module>"


def stored_names(code: types.CodeType) -> set[str]:
    """Names that a cell's `code` binds or unbinds, including those that functions in it declare global."""
    names = _named(code, _STORES + _DELETES)
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    while inner:
        nested = inner.pop()
        names |= _named(nested, ("STORE_GLOBAL", "DELETE_GLOBAL"))
        inner += [constant for constant in nested.co_consts if isinstance(constant, types.CodeType)]
    return names


def unreached(code: types.CodeType, offset: int) -> set[str]:
    """Names that a cell's `code` binds, but had not bound when it ended at the instruction at `offset`.

    Names about which this is unknown are left out: those that functions in it declare global, and those in or
    after an ``except`` or ``finally`` around that instruction.
    """
    steps = list(dis.get_instructions(code))
    loops = [(step.argval, step.offset) for step in steps if "JUMP_BACKWARD" in step.opname]
    around = [(start, end) for start, end in loops if start <= offset <= end]
    # What follows an `except` or `finally` that was reached may have been executed, too.
    entries: Any = vars(dis.Bytecode(code))["exception_entries"]
    caught = [each.target for each in entries if each.start <= offset < each.end]
    end = min(caught, default=len(code.co_code))
    later = {
        step.offset
        for step in steps
        if offset < step.offset < end and not any(first <= step.offset <= last for first, last in around)
    }
    stores = [step for step in steps if step.opname in _STORES]
    come_to = {step.argval for step in stores if step.offset not in later}
    inner = {
        name for each in code.co_consts if isinstance(each, types.CodeType) for name in stored_names(each)
    }
    return {step.argval for step in stores} - come_to - inner


def deleted_names(code: types.CodeType) -> set[str]:
    """Names that a cell's `code` itself unbinds. Costs a microsecond if there are none."""
    return _named(code, _DELETES) if _DELETE_CODES.intersection(code.co_code[::2]) else set()


@lru_cache(64)  # a loop that marks many parts asks each time
def loop_names(code: types.CodeType) -> frozenset[str]:
    """Loop variables of a cell's `code`: ``name, p`` of ``for name, p in x``."""
    found, expected = set[str](), 0
    for step in dis.get_instructions(code):
        if step.opname == "FOR_ITER":
            expected = 1
        elif not expected or step.opname == "EXTENDED_ARG":
            continue
        elif step.opname == "UNPACK_SEQUENCE":
            expected += (step.arg or 0) - 1
        elif step.opname.startswith("STORE_"):
            expected -= 1
            if step.opname in _STORES:
                found.add(step.argval)
        else:  # for x[0] in y, for a, *b in y
            expected = 0
    return frozenset(found)


def _named(code: types.CodeType, operations: tuple[str, ...]) -> set[str]:
    return {step.argval for step in dis.get_instructions(code) if step.opname in operations}


def names_of_result(frame: types.FrameType) -> list[str]:
    """The global names to which the result of the call that `frame` is making is directly assigned.

    ``w`` in ``w = f(x)``; none in ``w = f(x) + 1`` and in assignments to local variables or attributes.
    """
    code = frame.f_code
    # In the body of a class, STORE_NAME sets an attribute.
    stores = _STORES if code.co_name == MODULE else ("STORE_GLOBAL",)
    after = (step for step in dis.get_instructions(code) if step.offset > frame.f_lasti)
    steps = (step for step in after if step.opname not in _PASSING)
    return [step.argval for step in takewhile(lambda step: step.opname in stores, steps)]


def hold(value: Any) -> Holder:
    """A function that returns `value`, held weakly where that is possible: arrays are not kept alive."""
    try:
        return weakref.ref(value)
    except TypeError:  # numbers, text, containers
        return lambda: value


def holds(holder: Holder, value: Any) -> bool:
    """Whether `value` is what was given to `hold`; None from a dead weak reference does not count."""
    return holder() is value and not (value is None and isinstance(holder, weakref.ref))


class Watch:
    """Finds out which registers a cell binds: made before it runs, asked afterwards.

    Containers and numbers that are replaced stay alive until then; arrays do not.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        held = dict(namespace)  # a thread of the user's may unbind a name meanwhile
        self._before = {name: hold(held[name]) for name in RegisterFile(held).public_names()}

    def bound(self, codes: Iterable[types.CodeType]) -> frozenset[str]:
        """Registers that `codes` store, that hold another object than before, or that are gone."""
        now, before = dict(self._namespace), self._before
        present = RegisterFile(now).public_names()
        changed = {name for name in present if name not in before or not holds(before[name], now[name])}
        stored = set().union(*map(stored_names, codes)).intersection(present)
        return frozenset(changed | stored | before.keys() - set(present))
