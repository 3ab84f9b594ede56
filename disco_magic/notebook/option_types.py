"""What the values of options can be, for argparse: each takes the text and gives the value or an error."""

from __future__ import annotations

import argparse
import re
from typing import Final

OUT: Final = re.compile(r"Out\[(\d+)\]")


def names(text: str) -> list[str]:
    """Names of variables, with commas."""
    found = [part.strip() for part in text.split(",")]
    wrong = [part for part in found if not part.isidentifier()]
    if wrong:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is not a variable name; write names with commas: a,b")
    return found


def name(text: str) -> str:
    """The name of a variable."""
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not a variable name")
    return text


def name_or_result(text: str) -> str:
    """A name, or ``Out[3]``."""
    return text if OUT.fullmatch(text) else name(text)


def seconds(text: str) -> float:
    """Seconds, more than 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write seconds, e.g. 30 or 0.5")
    return value


def patience(text: str) -> float:
    """Seconds, 0 included; ``none`` is for ever."""
    try:
        value = float("inf" if text == "none" else text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write seconds, e.g. 5 or 0.5, or none")
    return value
