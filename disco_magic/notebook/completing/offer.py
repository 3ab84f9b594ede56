"""Completion requests and offers, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

UNKNOWN: Final = "<unknown>"
"""IPython's word for an unknown type."""

# IPython's policies up to the last one that runs no code of the values.
_CAUTIOUS: Final = ("forbidden", "minimal", "limited")


class Offer(NamedTuple):
    """One completion."""

    start: int
    end: int
    text: str
    type: str = UNKNOWN
    signature: str = ""


class Settings(NamedTuple):
    """The relevant settings of the user's completer, under IPython's names."""

    use_jedi: bool
    evaluation: str
    omit__names: int
    auto_close_dict_keys: bool
    backslash_combining_completions: bool
    jedi_compute_type_timeout: int
    disable_matchers: tuple[str, ...]

    @classmethod
    def of(cls, completer: Any) -> Settings:
        """The settings of a completer; a policy that evaluates more than ``limited`` becomes ``limited``."""
        values = {name: getattr(completer, name) for name in cls._fields}
        values["disable_matchers"] = tuple(completer.disable_matchers)
        if values["evaluation"] not in _CAUTIOUS:
            values["evaluation"] = _CAUTIOUS[-1]
        return cls(**values)


class Request(NamedTuple):
    """A completion request."""

    text: str
    offset: int
    elsewhere: Sequence[str]
    settings: Settings

    @property
    def line(self) -> str:
        """The cursor's line, up to the cursor."""
        return self.text[: self.offset].rpartition("\n")[2]

    def of_line(self) -> Request:
        """The request for the cursor's line alone."""
        start = self.offset - len(self.line)
        return self._replace(text=self.text[start:].partition("\n")[0], offset=len(self.line))

    def back(self, offers: Sequence[Offer]) -> list[Offer]:
        """Convert offers for the line alone to offers for the whole text."""
        start = self.offset - len(self.line)
        return [each._replace(start=each.start + start, end=each.end + start) for each in offers]
