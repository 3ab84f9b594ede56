"""Parts of messages: workers as ranges, similar names, an error in words."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")

NAMES: Final = 10
"""How many known names a message lists if an unknown name resembles none of them."""
# How similar names have to be, see `difflib`; at its default of 0.6 `open` would be suggested for `tokens`.
_LIKE: Final = 0.65
_WORD: Final = re.compile(r"\w+")
# Longer first lines are cut: errors of other workers repeat them.
_LONGEST: Final = 2000
# So many workers at equal distances are a range with a step: of few, the ids themselves are as short.
_STEPS: Final = 5


def words(error: BaseException) -> str:
    """``str(error)`` as a plain `str`, even if the exception's own ``__str__`` raises."""
    try:
        return str.__str__(str(error)).strip()
    except BaseException:  # noqa: BLE001 - a user's __str__ may raise anything; tracebacks say this
        return "<exception str() failed>"


def class_name(value: object) -> str:
    """Name of a value's class, read without running a user's metaclass, which might raise."""
    return str(type.__dict__["__name__"].__get__(type(value)))


def headline(error: BaseException) -> str:
    """``TypeName: first line of the message``, of which a very long one is cut."""
    name, first = class_name(error), next(iter(words(error).splitlines()), "")
    if len(first) > _LONGEST:
        first = f"{first[:_LONGEST]}\u2026 ({len(first):,} characters)"
    return f"{name}: {first}" if first else name


def near_misses(name: str, known: Iterable[str]) -> str:
    """``did you mean 'a' or 'b'?``: up to three of `known` that look like `name`; ``""`` if none does."""
    import difflib  # takes 2 ms, only for misspelt names

    near = difflib.get_close_matches(name, known, n=3, cutoff=_LIKE)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else ""


def no_such_part(path: str, known: Iterable[str]) -> str:
    """As `nearest`, for the path of a part: ``p.w`` is ``p['w']`` but for the marks between its words.

    The words alone are compared, and if a path has the same ones it is the only one that is shown.
    """
    import difflib  # as above

    words = {each: ".".join(_WORD.findall(each)) for each in known}
    if not words:
        return "it has no parts"
    asked = ".".join(_WORD.findall(path))
    like = [asked] if asked in words.values() else difflib.get_close_matches(asked, words.values(), 3, _LIKE)
    near = [each for each in words if words[each] in like and not path.startswith(each)]
    return f"did you mean {' or '.join(map(repr, near))}?" if near else nearest(path, words)


def near_paths(path: str) -> str:
    """`near_misses` for the last part of a path, among what is in its folder."""
    folder, name = os.path.split(os.path.abspath(path))
    try:
        return near_misses(name, os.listdir(folder))
    except OSError:  # no folder, or one that may not be read
        return ""


def nearest(name: str, known: Iterable[str]) -> str:
    """`near_misses`, or else the known names: ``there are: a, b``; ten at most; or ``there are none``."""
    names = list(known)
    if not names:
        return "there are none"
    shown = names if len(names) <= NAMES else [*sorted(names)[:NAMES], f"and {len(names) - NAMES:,} more"]
    return near_misses(name, names) or f"there are: {', '.join(shown)}"


def no_register(name: str, known: Iterable[str], former: Iterable[str] = ()) -> str:
    """Say that no worker has a register of that name; and what is there instead, or that a restart took it.

    Args:
        name: what was asked for.
        known: the names that there are.
        former: those before the session's restart.
    """
    instead = lost_in_restart(name) if name in former else nearest(name, known)
    return f"register {name!r} is not defined on any worker; {instead}"


def lost_in_restart(name: str) -> str:
    """Say that `name` was a register before the workers were restarted."""
    return f"{name} was lost when the workers were restarted; run the cell again that binds it"


def who_has(pairs: Iterable[tuple[int, T]]) -> dict[T, list[int]]:
    """What each worker has, says or shows -> the workers that do so, ordered by the first of each."""
    groups: dict[T, list[int]] = {}
    for worker, content in pairs:
        groups.setdefault(content, []).append(worker)
    return groups


def people(workers: Sequence[int]) -> str:
    """``worker 2`` or ``workers [0-1,3]``."""
    return f"worker {workers[0]}" if len(workers) == 1 else f"workers {ranges(workers)}"


def people_who(workers: Sequence[int], one: str, several: str) -> str:
    """``worker 2 has`` or ``workers [0-1] have``, for the verbs ``has`` and ``have``."""
    return f"{people(workers)} {one if len(workers) == 1 else several}"


def only(workers: Sequence[int], what: str) -> str:
    """``only worker 2 has x`` or ``only workers [0-1] have x``."""
    return f"only {people_who(workers, 'has', 'have')} {what}"


def padded(workers: Sequence[int], among: int) -> str:
    """`ranges`, padded to the widest single id of `among` workers, so that what follows is aligned."""
    return ranges(workers).ljust(len(f"[{among - 1}]"))


def ranges(workers: Sequence[int]) -> str:
    """Worker ids as ranges: ``[0-3]``, ``[0,2-4]``; from five on with a step, too: ``[0-12:3]``."""
    if len(workers) == 1:  # of each line that a worker writes
        return f"[{next(iter(workers))}]"
    ids = sorted(workers)
    if ids and ids[-1] - ids[0] == len(ids) - 1:  # all of them, most often
        return f"[{ids[0]}-{ids[-1]}]"
    parts: list[str] = []
    start = 0
    while start < len(ids):
        step = ids[start + 1] - ids[start] if start + 1 < len(ids) else 1
        end = start
        while end + 1 < len(ids) and ids[end + 1] - ids[end] == step:
            end += 1
        if step != 1 and end - start + 1 < _STEPS:
            end = start
        first, last = ids[start], ids[end]
        parts.append(f"{first}-{last}" if last > first else str(first))
        parts[-1] += f":{step}" if last > first and step != 1 else ""
        start = end + 1
    return f"[{','.join(parts)}]"
