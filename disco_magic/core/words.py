"""Quantities and tables as people read them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMES: Final = "\u00d7"
"""Between a count and what is counted."""


def until_the_end() -> str:
    """``until the kernel is restarted``, or in a program without one ``until the process ends``."""
    return "until the kernel is restarted" if is_kernel() else "until the process ends"


def is_kernel() -> bool:
    """Whether this process is a notebook's kernel."""
    app = sys.modules.get("ipykernel.kernelapp")
    return app is not None and bool(app.IPKernelApp.initialized())


def human_bytes(count: int) -> str:
    """``24 B``, ``1.5 KiB``, ``64 MiB``."""
    if count < 1024:
        return f"{count} B"
    size = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 999.5:
            return f"{size:.3g} {unit}"
    size /= 1024
    return f"{size:.3g} TiB" if size < 999.5 else f"{size:,.0f} TiB"


def human_seconds(seconds: float) -> str:
    """``12.3 ms``, ``4.56 s``, ``7 min 05 s``, ``3 h 02 min``."""
    if seconds < 0.99995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def fine_seconds(seconds: float) -> str:
    """Like `human_seconds`, but with three digits of a short time: ``593 \u00b5s``."""
    if seconds >= 0.9995:
        return human_seconds(seconds)
    return (
        f"{seconds * 1e3:.3g} ms" if seconds >= 0.9995e-3 or not seconds else f"{seconds * 1e6:.3g} \u00b5s"
    )


def coarse_seconds(seconds: float) -> str:
    """Like `human_seconds`, but ``< 1 ms`` for less than that."""
    return "< 1 ms" if seconds < 1e-3 else human_seconds(seconds)


def shape_text(shape: tuple[int, ...]) -> str:
    """The lengths of an array's axes, joined by multiplication signs; ``0-d`` without axes."""
    return "\u00d7".join(map(str, shape)) if shape else "0-d"


def aligned(rows: Sequence[Sequence[str]], *, words: int = 0) -> list[str]:
    """Lines in which the first `words` columns are aligned to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def plural(count: int, noun: str) -> str:
    """``1 worker``, ``4,000 workers``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def from_to(least: str, most: str) -> str:
    """Two quantities with their units: ``1.2 - 3.4 ms``, ``980 ms - 1.05 s``, ``3.4 ms``."""
    if least == most:
        return most
    number, _, unit = least.partition(" ")
    return f"{number if most.partition(' ')[2] == unit else least} - {most}"
