"""Ends of loops at which Python loses which ``with`` and ``try`` are around them.

What strikes a thread there, an interrupt or Ctrl-C, leaves without their clean-up. There are two faults; 3.15
has neither of them (hundreds of loops were struck at random moments).

**3.13 and 3.14.** The compiler turns a conditional jump back to the beginning of a loop into two
instructions. The second one, sometimes also the first, is not in the table of exceptions (CPython's issue
130279):

    POP_JUMP_IF_FALSE   past the next one
    JUMP_BACKWARD       to the beginning: here a thread looks for what is pending

Such a jump ends ``for ...: if c: ...`` and ``while ...: if c: ...`` where `c` is false; on 3.13 also
``while c: ...``, and comprehensions; on 3.14 ``any(...)`` and ``all(...)`` of a generator, which are loops
there, and a NOT_TAKEN is between the two.

**3.11 and 3.12.** They look for what is pending after the jump, and search the table for the instruction
before its target. For ``try: / while True: f()``, on two lines, that is the NOP of the `try`, outside of its
block (CPython's issue 108214); before ``while a < b < c`` it may be a return. It may also be the last one of
a block that is over, whose handler is then called: on 3.12 even that of the ``try`` from whose ``except`` the
jump comes.

3.12 has also the two instructions of the first fault; they only hide which block its jump is in.
"""

from __future__ import annotations

import dis
import re
import sys
from bisect import bisect_left
from functools import cache
from math import inf
from operator import is_
from types import CodeType
from typing import Final, TypeAlias

_VERSION: Final = sys.version_info[:2]
_HAVE_NO_ENTRY: Final = (3, 12) <= _VERSION <= (3, 14)
_ARE_LOOKED_UP_BEFORE: Final = _VERSION <= (3, 12)
_SKIPS: Final = ("POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
_LONGER: Final = bytes([dis.EXTENDED_ARG])
# None of them is ever looked up for itself: none raises, calls, or looks for what is pending where it stands.
# CACHE is the rest of an instruction, which is looked up by its beginning if it fails.
_SILENT: Final = (
    "NOP", "CACHE", "POP_TOP", "POP_EXCEPT", "STORE_FAST", "STORE_DEREF", "RETURN_VALUE", "RETURN_CONST",
    "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT",
)  # fmt: skip
# Start, length and the rest of an entry in a table of exceptions. A byte has six bits of a number, the
# highest ones first. Bit 6 says that more follow, bit 7 that an entry begins. The format is described in
# CPython's InternalDocs/exception_handling.md.
_ENTRY: Final = re.compile(
    rb"([\xc0-\xff][\x40-\x7f]*[\x00-\x3f]|[\x80-\xbf])([\x40-\x7f]*[\x00-\x3f])([\x00-\x7f]*)"
)
_BITS, _DIGIT, _CONTINUED, _BEGINS = 6, 0x3F, 0x40, 0x80


# Of such a table: from where to where, in code units, and what is done there. A plain tuple takes less time:
# every function of a cell with a `with` or `try` has some.
_Entry: TypeAlias = tuple[int, int, bytes]


def covered(code: CodeType) -> CodeType:
    """Code that does the same, but whose blocks cover the ends of their loops, as does the code within it.

    Returns `code` itself if nothing is missing, and always from Python 3.15 on.
    """
    if not (_HAVE_NO_ENTRY or _ARE_LOOKED_UP_BEFORE):
        return code
    constants, table = code.co_consts, _reaching(code)
    if CodeType in map(type, constants):
        constants = tuple([covered(each) if type(each) is CodeType else each for each in constants])
    if table == code.co_exceptiontable and all(map(is_, constants, code.co_consts)):
        return code
    return code.replace(co_consts=constants, co_exceptiontable=table)


def _reaching(code: CodeType) -> bytes:
    """The table of exceptions, whose entries reach over the ends of their loops."""
    if not (table := code.co_exceptiontable):
        return table
    words = code.co_code
    jumps = _jumps(words) if _ARE_LOOKED_UP_BEFORE else []
    if _ARE_LOOKED_UP_BEFORE and not jumps:
        return table
    ends = _loop_ends(words[::2]) if _HAVE_NO_ENTRY else {}
    if not ends and not jumps:
        return table
    entries = before = _entries(table)
    if ends:
        entries = _longer(entries, ends)
    if jumps:
        entries = _up_to_targets(_earlier(entries, jumps), jumps, words[::2])
    return table if entries == before else b"".join(map(_encoded, entries))


def _longer(entries: list[_Entry], ends: dict[int, int]) -> list[_Entry]:
    """The entries; one that stops short of a loop's end reaches over it."""
    followings = [*(start for start, _, _ in entries[1:]), inf]
    found = []
    for (start, end, handler), following in zip(entries, followings, strict=True):
        over = ends.get(end, end)
        found.append((start, over if over <= following else end, handler))  # else this end has an entry
    return found


def _loop_ends(operations: bytes) -> dict[int, int]:
    """Where a block that is too short may stop, and where the end of the loop is over.

    In code units, each of which is one of the `operations` and an argument.
    """
    ends = {}
    for found in _conditional().finditer(operations):
        ends[found.start("jump")] = ends[found.start("passed")] = found.end()
        if skip := found["skip"]:
            before = operations[: found.end("skip") - len(skip)]
            ends[len(before.rstrip(_LONGER))] = found.end()
    return ends


def _jumps(words: bytes) -> list[tuple[int, int]]:
    """Where a jump back is and where to, if what stands before its target may change its block."""
    operations, silent, jumps = words[::2], _silent(), []
    for found in _back().finditer(operations):
        target = found.end() - _argument(words, found)
        if operations[target - 1] in silent:
            jumps.append((found.end() - 1, target))
    return jumps


def _earlier(entries: list[_Entry], jumps: list[tuple[int, int]]) -> list[_Entry]:
    """The entries; what stands before the target of a jump back is where the jump is.

    Not if the target begins a block of its own: the jump is outside of it.
    """
    moved = set()
    for jump, target in jumps:
        around = _handler(entries, jump)
        if around == _handler(entries, target) != _handler(entries, target - 1):
            moved.add(target)
    if not moved:
        return entries
    return [(start - (start in moved), end - (end in moved), handler) for start, end, handler in entries]


def _up_to_targets(entries: list[_Entry], jumps: list[tuple[int, int]], operations: bytes) -> list[_Entry]:
    """The entries; where loops begin with a block of their own, what stands before it is where the jumps are.

    If nothing but a return is between that and their block.
    """
    around: dict[int, set[bytes]] = {}
    for jump, target in jumps:
        around.setdefault(target, set()).add(_handler(entries, jump))
    found = list(entries)
    for target, handlers in around.items():
        index = bisect_left(entries, (target,)) - 1
        start, end, handler = entries[index] if index >= 0 else (0, target, b"")
        if handlers != {handler} or handler == _handler(entries, target):
            continue
        if end < target and not operations[end:target].translate(None, _quiet()):
            found[index] = start, target, handler
    return found


def _handler(entries: list[_Entry], place: int) -> bytes:
    index = bisect_left(entries, (place + 1,)) - 1
    return entries[index][2] if index >= 0 and place < entries[index][1] else b""


def _argument(words: bytes, found: re.Match[bytes]) -> int:
    return int.from_bytes(words[2 * found.start() + 1 : 2 * found.end() : 2], "big")


@cache
def _conditional() -> re.Pattern[bytes]:
    """Finds ends of loops that have a condition.

    ``if a < b < c`` is also left by way of an instruction that takes `b` from the stack. A jump of its own
    follows, which lacks its entry if it is one back.
    """
    rest = _any_of("CACHE") if _VERSION >= (3, 13) else b""
    skip, back = _any_of(*_SKIPS) + rest, _any_of("JUMP_BACKWARD") + rest
    dropped = _any_of("JUMP_FORWARD") + _any_of("POP_TOP")
    passed = _any_of("NOT_TAKEN") + b"?" if "NOT_TAKEN" in dis.opmap else b""
    return re.compile(
        b"(?:(?P<skip>%s)|%s)(?P<passed>%s)(?P<jump>%s*%s)"
        % (skip, dropped, passed, re.escape(_LONGER), back)
    )


@cache
def _back() -> re.Pattern[bytes]:
    names = [each for each in dis.opmap if each.startswith(("JUMP_BACKWARD", "POP_JUMP_BACKWARD"))]
    looking = _any_of(*(each for each in names if each != "JUMP_BACKWARD_NO_INTERRUPT"))
    return re.compile(re.escape(_LONGER) + b"*" + looking)


@cache
def _silent() -> bytes:
    return bytes(dis.opmap[each] for each in _SILENT if each in dis.opmap)


@cache
def _quiet() -> bytes:
    return _silent() + bytes((dis.opmap["LOAD_CONST"],))


def _any_of(*operations: str) -> bytes:
    return b"[%s]" % re.escape(bytes(dis.opmap[each] for each in operations))


def _entries(table: bytes) -> list[_Entry]:
    return [
        (start := _number(first), start + _number(length), rest)
        for first, length, rest in _ENTRY.findall(table)
    ]


def _encoded(entry: _Entry) -> bytes:
    start, end, handler = entry
    digits = _digits(start)
    return bytes((digits[0] | _BEGINS,)) + digits[1:] + _digits(end - start) + handler


def _number(digits: bytes) -> int:
    number = 0
    for each in digits:
        number = number << _BITS | each & _DIGIT
    return number


def _digits(number: int) -> bytes:
    digits = [number & _DIGIT]
    while number := number >> _BITS:
        digits.append(number & _DIGIT | _CONTINUED)
    return bytes(reversed(digits))
