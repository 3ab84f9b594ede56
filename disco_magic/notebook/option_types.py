"""Types of option values, for argparse: each function takes the text and returns the value or raises."""

from __future__ import annotations

import argparse
import keyword
import re
import unicodedata
from pathlib import Path
from typing import Final

from disco_magic.core.mesh import NO_MESH, Mesh, mesh_of
from disco_magic.core.module_names import module_names
from disco_magic.errors import UsageMistake
from disco_magic.notebook.assigned import is_assigned

SESSION: Final = ("workers", "groups", "mesh", "kind", "ccl", "devices", "own_modules")
"""What a session is started with; each is an option, a setting, and an option of the kernel."""

KINDS: Final = ("threads",)
"""Kinds of workers."""

PLANES: Final = ("auto", "threads", "device", "nccl")
"""Data planes."""

MODES: Final = ("live", "ordered", "grouped", "worker0", "none")
"""How the output of a cell is shown."""

OUT: Final = re.compile(r"Out\[(\d+)\]")
_NAMED: Final = re.compile(r"(\w+)=(.+)", re.DOTALL)
_PART: Final = re.compile(r"[^\W\d]\w*[.[]")


def name(text: str) -> str:
    """The name of a variable, as Python reads it: it takes the micro sign for the Greek letter."""
    text = unicodedata.normalize("NFKC", text)
    if not text.isidentifier() or keyword.iskeyword(text):
        whole = re.match(r"[^\W\d]\w*(?=[.[])", text)
        way = f"; for a part of {whole[0]} name the variable: w={text}" if whole else ""
        raise argparse.ArgumentTypeError(f"{text!r} is not a variable name{way}")
    return text


def session(text: str) -> str:
    """The name of a variable that holds a session, or the number of one that is open."""
    return text if text.isascii() and text.isdigit() else name(text)


def part(text: str) -> str:
    """A register, or a part of one: ``model.0.weight``."""
    return re.sub(r"^\w+", lambda found: unicodedata.normalize("NFKC", found[0]), unquoted(text))


def register(text: str) -> str:
    """The name of a variable that can also be a register."""
    text = name(text)
    if text.startswith("_"):
        raise argparse.ArgumentTypeError(
            f"{text!r} begins with an underscore: such names are private to a worker and are not registers"
        )
    return text


def source(text: str) -> tuple[str, str]:
    """A variable and what it gets: ``w``, the register of that name, or ``w=params['w']``, a part of one.

    In ``v = %disco get params['w']`` the part needs no variable: in its place is the part itself.
    """
    named = _NAMED.fullmatch(text)
    if named is None and _PART.match(text) and is_assigned():
        return part(text), part(text)
    if named is None:
        whole = register(text)
        return whole, whole
    return name(named[1]), part(named[2])


def registers(text: str) -> list[str]:
    """Names of registers, separated by commas."""
    return [register(part.strip()) for part in text.split(",")]


def name_or_result(text: str) -> str:
    """A name, or ``Out[3]``."""
    return text if OUT.fullmatch(text) else name(text)


def unquoted(text: str) -> str:
    """Any text, without the quotes that IPython leaves on."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def file(text: str) -> Path:
    """The path of a file to write, as in a shell: ``~/a.json`` or ``"a b.json"``."""
    written = unquoted(text)
    if not written:
        raise argparse.ArgumentTypeError("it is empty; write the name of a file")
    return Path(written).expanduser()


def seconds(text: str) -> float:
    """Seconds, more than 0."""
    value = _number(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write seconds, e.g. 30 or 0.5")
    return value


def limit(text: str) -> float:
    """Seconds, more than 0; ``none`` means no limit."""
    return float("inf") if text == "none" else seconds(text)


def patience(text: str) -> float:
    """Seconds, 0 or more; ``none``, and ipyparallel's -1, mean for ever."""
    value = _number(text)
    if text == "none" or value == -1:
        return float("inf")
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write seconds, e.g. 5 or 0.5, or none")
    return value


def tolerance(text: str) -> float:
    """How far numbers may be apart, 0 or more."""
    value = _number(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a tolerance; write a number, e.g. 1e-5")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def mesh_named(text: str | None) -> Mesh:
    """The mesh that an option or a setting names; none for ``none`` and an empty text."""
    return NO_MESH if text in (None, "", "none") else mesh_of(text)


def mesh(text: str) -> str:
    """Axes of a mesh with their lengths, or ``none``."""
    text = unquoted(text)
    try:
        mesh_of(text if text != "none" else None)
    except UsageMistake as reason:
        raise argparse.ArgumentTypeError(str(reason)) from None
    return text


def own_modules(text: str) -> str:
    """Names of modules, separated by commas, or ``none``."""
    text = unquoted(text)
    try:
        modules_named(text)
    except UsageMistake as reason:
        raise argparse.ArgumentTypeError(str(reason)) from None
    return text


def modules_named(text: str) -> tuple[str, ...] | None:
    """The modules that workers import for themselves, from an option or a setting; None if not given."""
    return None if text == "" else () if text == "none" else module_names(text)


def axes(text: str) -> list[str]:
    """Names of axes of the mesh, separated by commas."""
    return [part.strip() for part in unquoted(text).split(",")]


def count(text: str) -> int:
    """A count, 1 or more."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a count; write a number, 1 or more")
    return int(text)
