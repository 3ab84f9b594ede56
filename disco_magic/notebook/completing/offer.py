"""What can be typed next, and what is asked; plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

UNKNOWN: Final = "<unknown>"
"""IPython's word for what it does not know the type of."""

# More than the last of these would run code of the values.
_CAUTIOUS: Final = ("forbidden", "minimal", "limited")


class Offer(NamedTuple):
    """One thing that can be typed next.

    Attributes:
        start, end: what of the text it replaces.
        text: with what.
        type: what it is, as front ends show it.
        signature: of a function, ``(x, y=1)``.
    """

    start: int
    end: int
    text: str
    type: str = UNKNOWN
    signature: str = ""


class Settings(NamedTuple):
    """How the user's own completer is configured, as far as that matters here; the names are IPython's."""

    use_jedi: bool
    evaluation: str
    omit__names: int
    auto_close_dict_keys: bool
    backslash_combining_completions: bool
    jedi_compute_type_timeout: int
    disable_matchers: tuple[str, ...]

    @classmethod
    def of(cls, completer: Any) -> Settings:
        """Those of a completer; what would evaluate more than ``limited`` is limited."""
        values = {name: getattr(completer, name) for name in cls._fields}
        values["disable_matchers"] = tuple(completer.disable_matchers)
        if values["evaluation"] not in _CAUTIOUS:
            values["evaluation"] = _CAUTIOUS[-1]
        return cls(**values)


class Request(NamedTuple):
    """What to complete.

    Attributes:
        text: the cell without its magic lines.
        offset: of the cursor in it.
        elsewhere: names that cells of other workers have bound.
        settings: how.
    """

    text: str
    offset: int
    elsewhere: Sequence[str]
    settings: Settings

    @property
    def line(self) -> str:
        """The cursor's line, as far as the cursor."""
        return self.text[: self.offset].rpartition("\n")[2]

    def of_line(self) -> Request:
        """The same for the cursor's line alone."""
        start = self.offset - len(self.line)
        return self._replace(text=self.text[start:].partition("\n")[0], offset=len(self.line))

    def back(self, offers: Sequence[Offer]) -> list[Offer]:
        """Offers for the line alone, as offers for the whole text."""
        start = self.offset - len(self.line)
        return [each._replace(start=each.start + start, end=each.end + start) for each in offers]
