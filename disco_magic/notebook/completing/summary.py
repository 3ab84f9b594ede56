"""What is said of registers while one types: marks in completions, and help with a value per worker."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.markup import MARK
from disco_magic.core.register_text import line_of
from disco_magic.core.snapshot import Row, merge
from disco_magic.phrases import ranges, who_has
from disco_magic.values.members import registers_among

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disco_magic.core.snapshot import RegisterInfo
    from disco_magic.notebook.shell import Shell
    from disco_magic.session.session import Session
    from disco_magic.values.members import NameInfo

REGISTER: Final = "register"
MOST: Final = 10_000
SPACE: Final = "\u00a0"  # no-break: JupyterLab would wrap at an ordinary one


def marks(session: Session, names: Iterable[str]) -> dict[str, str]:
    """``register``, ``register ≠`` or ``register [0,2]`` for those of `names` that are registers.

    The sign means that types, shapes, dtypes or kinds of device differ. Workers are listed if others have no
    such register. Values are not compared. Waits for no worker. Of more than `MOST` values none are marked:
    JupyterLab drops completions that take a second.
    """
    chosen = tuple(names)
    if len(chosen) * session.num_workers > MOST:
        return dict.fromkeys(chosen, REGISTER)
    found = session.examine_names(registers_among, chosen)
    return {row.name: _mark(row) for row in merge(session.id, found, session.circles_of_marks()).rows}


def _mark(row: Row) -> str:
    holders = [worker for worker, cell in enumerate(row.cells) if cell is not None]
    there = row.of(holders)
    missing = ranges(holders) if len(holders) < len(row.cells) else ""
    return SPACE.join(part for part in (REGISTER, missing, MARK if there.differs else "") if part)


_CODE: Final = ("Signature", "Init signature", "Call signature", "Source")


def bundle(
    shell: Shell,
    name: str,
    infos: Sequence[NameInfo | None],
    sections: Sequence[tuple[str, str]],
    circles: tuple[tuple[int, ...], ...] = (),
) -> dict[str, str]:
    """The MIME bundle of the help."""
    told = list(sections)
    there = [info for info in infos if info is not None]
    # Functions and classes are described by their documentation, the same on all workers.
    if any(info.is_register or not info.is_definition for info in there):
        row = Row(name, tuple(None if info is None else info.info for info in infos), circles=circles)
        title = "Register" if any(info.is_register for info in there) else "Value"
        told.insert(0, (title, "\n".join(_lines(row))))
    inspector = shell.inspector
    coloured = [(title, inspector.format(text) if title in _CODE else text) for title, text in told]
    text = inspector.format_mime({"text/plain": coloured})["text/plain"]
    return {"text/plain": text, "text/html": f"<pre>{_html(told)}</pre>"}


def _html(sections: Sequence[tuple[str, str]]) -> str:
    """The text with bold titles; front ends remove styles from HTML that they show at the cursor."""
    width = max(len(title) for title, _ in sections)
    return "\n".join(
        f"<b>{title}:</b>{chr(10) if chr(10) in text else ' ' * (width + 1 - len(title))}{escape(text)}"
        for title, text in sections
    )


def _groups(row: Row) -> list[tuple[str, bool, RegisterInfo | None]]:
    """Groups of workers with equal values: ``[0-2]``, whether these are the odd ones, and the value."""
    groups = who_has(enumerate(row.cells))
    odd = row.odd_if_differing()
    return [(ranges(workers), any(odd[each] for each in workers), info) for info, workers in groups.items()]


def _lines(row: Row) -> list[str]:
    groups = _groups(row)
    if len(groups) == 1:
        return [f"{label} {line_of(info)}" for label, _, info in groups]
    width = max(len(label) for label, _, _ in groups)
    return [f"{MARK if odd else ' '} {label:<{width}} {line_of(info)}" for label, odd, info in groups]
