"""Registers as MIME bundles: text, and the inspector's table. Waits a moment for workers at most."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING

from disco_magic.core.register_parts import MOST_PARTS
from disco_magic.core.register_text import caption, further, table_text, totals
from disco_magic.core.register_values import columns_of
from disco_magic.errors import SessionClosed, UsageMistake
from disco_magic.notebook.inspector.table import parts_html, table_html

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.core.register_parts import RegisterParts
    from disco_magic.core.snapshot import Row, SessionSnapshot
    from disco_magic.session.dref import DRef


def snapshot_bundle(snapshot: SessionSnapshot) -> dict[str, str]:
    """The MIME bundle of the registers of a session."""
    return listing_bundle(snapshot, snapshot.listed)


def listing_bundle(
    snapshot: SessionSnapshot,
    rows: Sequence[Row],
    held: Mapping[str, str] = MappingProxyType({}),
    places: Sequence[str] = (),
) -> dict[str, str]:
    """The MIME bundle of registers that are chosen from a session's; `held` and `places` as in `table_html`.

    Of more than 300 it has those that differ first, so that a notebook's file stays small.
    """
    first = sorted(rows, key=lambda row: not row.differs)[:MOST_PARTS] if len(rows) > MOST_PARTS else rows
    title = caption(snapshot) + (f", {len(rows):,} shown" if len(rows) < len(snapshot.listed) else "")
    rest = further(rows, MOST_PARTS)
    named = {name: f"{name} ({keeper})" for name, keeper in held.items()}
    said = [replace(row, name=named.get(row.name, row.name)) for row in first]
    lines = (title, table_text(said, snapshot.num_workers), rest, f"total {totals(snapshot)}")
    columns = columns_of(snapshot.num_workers)
    return {
        "text/plain": "\n".join(filter(None, lines)),
        "text/html": table_html(
            first, columns, snapshot.nbytes, title=title, rest=rest, held=held, places=places
        ),
    }


def parts_bundle(parts: RegisterParts) -> dict[str, str]:
    """The MIME bundle of one register with its parts, which `Session.look_into` returns."""
    return {"text/plain": repr(parts), "text/html": parts_html(parts, columns_of(parts.num_workers))}


def row_bundle(row: Row) -> dict[str, str]:
    """The MIME bundle of one register, which `DRef.info` returns."""
    return {"text/plain": repr(row), "text/html": table_html([row], columns_of(len(row.cells)))}


def dref_bundle(dref: DRef) -> dict[str, str]:
    """The MIME bundle of a reference, with what is known of its register without asking a worker."""
    text = repr(dref)
    html = f"<code>{escape(text)}</code>"
    try:
        row = row_bundle(dref.info())
    except (SessionClosed, UsageMistake):  # its session has ended or was restarted
        return {"text/plain": text, "text/html": html}
    return {"text/plain": f"{text}\n{row['text/plain']}", "text/html": f"{html}{row['text/html']}"}
