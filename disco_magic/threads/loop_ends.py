"""Ends of loops at which Python 3.13 loses which ``with`` and ``try`` are around them.

What strikes a thread there, an interrupt or Ctrl-C, leaves without their clean-up (CPython's issue 130279; no
other version has it). The compiler turns a conditional jump back to the beginning of a loop into two
instructions. The second one, sometimes also the first, is not in the table of exceptions:

    POP_JUMP_IF_FALSE   past the next one
    JUMP_BACKWARD       to the beginning: here a thread looks for what is pending

Such a jump ends ``while c: ...``, and ``for ...: if c: ...`` where `c` is false; comprehensions have it, too.
"""

from __future__ import annotations

import dis
import operator
import re
import sys
from functools import cache
from math import inf
from types import CodeType
from typing import Final

_ARE_LOST: Final = sys.version_info[:2] == (3, 13)
_SKIPS: Final = ("POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
_LONGER: Final = bytes([dis.EXTENDED_ARG])
# Start, length and the rest of an entry in a table of exceptions. A byte has six bits of a number, the
# highest ones first. Bit 6 says that more follow, bit 7 that an entry begins. The format is described in
# CPython's InternalDocs/exception_handling.md.
_ENTRY: Final = re.compile(
    rb"([\xc0-\xff][\x40-\x7f]*[\x00-\x3f]|[\x80-\xbf])([\x40-\x7f]*[\x00-\x3f])([\x00-\x7f]*)"
)
_BITS, _DIGIT, _CONTINUED = 6, 0x3F, 0x40


def covered(code: CodeType) -> CodeType:
    """Code that does the same, but whose blocks cover the ends of their loops, as does the code within it.

    Returns `code` itself if nothing is missing, and always in other versions than 3.13.
    """
    if not _ARE_LOST:
        return code
    constants, table = code.co_consts, _reaching(code)
    if CodeType in map(type, constants):
        constants = tuple([covered(each) if type(each) is CodeType else each for each in constants])
    if table == code.co_exceptiontable and all(map(operator.is_, constants, code.co_consts)):
        return code
    return code.replace(co_consts=constants, co_exceptiontable=table)


def _reaching(code: CodeType) -> bytes:
    """The table of exceptions, in which an entry that stops short of a loop's end reaches over it."""
    table = code.co_exceptiontable
    ends = _loop_ends(code.co_code[::2]) if table else {}
    if not ends:
        return table
    entries = _ENTRY.findall(table)
    starts = [_number(start) for start, _, _ in entries]
    parts: list[bytes] = []
    for (first, length, rest), start, following in zip(entries, starts, [*starts[1:], inf], strict=True):
        end = ends.get(start + _number(length), 0)
        has_none = 0 < end <= following  # else this end of a loop has an entry
        parts += (first, _digits(end - start) if has_none else length, rest)
    return b"".join(parts)


def _loop_ends(operations: bytes) -> dict[int, int]:
    """Where a block that is too short may stop, and where the end of the loop is over.

    In code units, each of which is one of the `operations` and an argument.
    """
    ends = {}
    for found in _pattern().finditer(operations):
        ends[found.start("jump")] = found.end()
        if skip := found["skip"]:
            before = operations[: found.end("skip") - len(skip)]
            ends[len(before.rstrip(_LONGER))] = found.end()
    return ends


@cache
def _pattern() -> re.Pattern[bytes]:
    """Finds ends of loops.

    ``if a < b < c`` is also left by way of an instruction that takes `b` from the stack. A jump of its own
    follows, which lacks its entry if it is one back.
    """
    skip, back = _any_of(*_SKIPS) + _any_of("CACHE"), _any_of("JUMP_BACKWARD") + _any_of("CACHE")
    dropped = _any_of("JUMP_FORWARD") + _any_of("POP_TOP")
    return re.compile(b"(?:(?P<skip>%s)|%s)(?P<jump>%s*%s)" % (skip, dropped, re.escape(_LONGER), back))


def _any_of(*operations: str) -> bytes:
    return b"[%s]" % re.escape(bytes(dis.opmap[each] for each in operations))


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
