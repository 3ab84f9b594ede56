"""Tab completion: workers' names in cells that run on workers; ``%disco`` and ``%%disco`` lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from IPython.utils.generics import complete_object

from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.notebook.completing.lines import make_matcher
from disco_magic.offers import Offers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disco_magic.notebook.completing.cells import Body
    from disco_magic.notebook.front import Front

_DISCO: Final = re.compile(r"%%disco(?:\s+(.*))?$")
_OF_LINE: Final = re.compile(r"\s*%disco\s")


# Magics that execute the text below them as a cell.
_AROUND: Final = {"%%time", "%%timeit", "%%capture", "%%prun"}


@complete_object.register(Offers)
def _offered(thing: Offers, words: list[str]) -> list[str]:
    """What IPython offers of our objects without Jedi: it adds what their classes have.

    Nothing can take that away again from IPython, and it says only what is true of these objects.
    """
    known = set(dir(thing))
    return [word for word in words if word in known]


def is_spmd(front: Front, text: str) -> bool:
    """Whether the cell `text`, which may be incomplete, runs on the workers."""
    lines = _magic_lines(text)
    if any(_DISCO.match(line) for line in lines):
        return True
    if any(line.split()[0] not in _AROUND for line in lines if line.strip()):
        return False
    return front.plain.is_for_workers("\n".join(text.split("\n")[len(lines) :]))


def body_at(front: Front, text: str, offset: int) -> Body | None:
    """The part of the cell that runs on the workers, if `offset` is in it."""
    if not is_spmd(front, text):
        return None
    from disco_magic.notebook.completing.cells import Body

    lines = _magic_lines(text)
    options = next((found[1] for found in map(_DISCO.match, lines) if found), None)
    start = sum(len(line) + 1 for line in lines)
    return Body(options or "", start) if start <= offset <= len(text) else None


def _magic_lines(text: str) -> list[str]:
    """The lines at the top that begin with ``%%``, with empty lines between them."""
    found: list[str] = []
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("%%"):
            found = lines[: number + 1]
        elif line.strip():
            break
    return found


def complete_for_workers(front: Front) -> Callable[[], None]:
    """Put hooks into IPython's completer; return what removes them.

    For magic lines, a matcher. For cells, the method `completions` on the instance: the results of a matcher
    are cut off after 500 names and lose their signatures, and if there are none, IPython offers variables of
    the notebook that the workers do not have.
    """
    completer, matcher = front.shell.Completer, make_matcher(front)

    @replacing(completer, "completions")
    def completions(text: str, offset: int) -> Iterator[Any]:
        body = body_at(front, text, offset)
        if body is None or _OF_LINE.match(text[:offset].rpartition("\n")[2]):
            yield from completions.below(text, offset)
            return
        from disco_magic.notebook.completing import cells

        try:
            yield from cells.completions(front, body, text, offset)
        except (Exception, KeyboardInterrupt):  # noqa: BLE001 - see below
            # The session has ended, it takes too long, or IPython's completer or Jedi failed on incomplete
            # code. Offer nothing and say nothing: a traceback would appear in the middle of the input.
            return

    completer.custom_matchers.append(matcher)
    restore = replace_all([completions])

    def remove() -> None:
        if matcher in completer.custom_matchers:  # the list may have been replaced
            completer.custom_matchers.remove(matcher)
        restore()

    return remove
