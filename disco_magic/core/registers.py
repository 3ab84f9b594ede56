"""The register file of one worker: numbered registers, and the names that cells bind.

Numbered registers belong to references (DRefs) of the controller and die with them. Named registers are
the variables of the worker's namespace. Single writer: only the worker changes either; any thread may take a
snapshot at any time, because copying a dict with int or str keys runs no Python code.

Values and failures are in two dictionaries, so that reading an operand costs one look-up and no test:
a poisoned register is simply absent from `values`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, MutableMapping

    from disco_magic.errors import Failure


class Absent:
    """What a register that does not exist holds."""


ABSENT: Final = Absent()


class Poison:
    """Why a register has no value.

    Attributes:
        failure: the origin; commands that read the register inherit it instead of running.
        reported: whether the controller has been told; a poison nobody read yet may stay quiet.
    """

    __slots__ = ("failure", "reported")

    def __init__(self, failure: Failure, *, reported: bool) -> None:
        self.failure = failure
        self.reported = reported


class RegisterFile:
    """Numbered and named registers of one worker.

    Attributes:
        values, poisons: register -> value, or why it has none.
        names: the worker's namespace.
        marked: names, and parts of what they hold, that are meant to be equal, and on which workers; a name
            that is dropped loses its marks.
    """

    __slots__ = ("marked", "names", "poisons", "values")

    def __init__(self, names: MutableMapping[str, Any], marked: dict[str, Any] | None = None) -> None:
        self.values: dict[int, Any] = {}
        self.poisons: dict[int, Poison] = {}
        self.names = names
        self.marked = {} if marked is None else marked

    def set(self, register: int, value: Any) -> None:
        """Give a register a value, whether or not it was poisoned."""
        self.poisons.pop(register, None)
        self.values[register] = value

    def poison(self, register: int, poison: Poison) -> None:
        """Take away a register's value. The first origin stays: a poisoned register keeps its poison."""
        self.values.pop(register, None)
        self.poisons.setdefault(register, poison)

    def clear(self) -> None:
        """Release all numbered registers."""
        self.values.clear()
        self.poisons.clear()

    def kill(self, registers: Iterable[int]) -> None:
        """Make registers absent; those that are already absent are skipped."""
        for register in registers:
            self.values.pop(register, None)
            if self.poisons:
                self.poisons.pop(register, None)

    def drop(self, name: str) -> None:
        """Unbind a name, if it is bound."""
        self.names.pop(name, None)
        for label in [label for label in self.marked if register_of(label) == name]:
            del self.marked[label]

    def moved(self) -> RegisterFile:
        """Return a file with the same content, and empty this one.

        For a thread that was given up in the middle of a `kill`: when it goes on, the ids may be reused.
        """
        heir = RegisterFile(self.names, self.marked)
        heir.values, heir.poisons = dict(self.values), dict(self.poisons)
        self.values.clear()
        self.poisons.clear()
        return heir

    def public_names(self) -> tuple[str, ...]:
        """The named registers, in the order they were first bound. A leading underscore hides a name."""
        # `is_public`, written out: this is done at the end of every cell, on every worker.
        return tuple(
            [name for name in list(self.names) if isinstance(name, str) and not name.startswith("_")]
        )

    def content(self, register: int) -> Any:
        """The value or `Poison` of a numbered register, `ABSENT` if neither; safe from any thread."""
        return self.values.get(register, self.poisons.get(register, ABSENT))

    def labelled(self, label: str) -> Any:
        """The value or `Poison` of register ``x`` or ``#5``, `ABSENT` if neither; safe from any thread."""
        if label.startswith("#"):
            return self.content(int(label[1:])) if label[1:].isdecimal() else ABSENT
        # Look among the names only: a key of a user's class would have its `__eq__` called.
        return {name: value for name, value in dict(self.names).items() if is_public(name)}.get(label, ABSENT)

    def contents(self) -> list[tuple[str, Any]]:
        """``(label, value or Poison)`` of every register, names first; safe from any thread."""
        named = dict(self.names)
        numbered: dict[int, Any] = {**self.values, **self.poisons}
        rows = [(name, value) for name, value in named.items() if is_public(name)]
        return rows + [(f"#{register}", numbered[register]) for register in sorted(numbered)]


def register_of(label: str) -> str:
    """The register that a part is in: ``w`` for ``w['a'].b``."""
    return label.partition("[")[0].partition(".")[0]


def inside(label: str) -> tuple[str, str]:
    """How the labels of the parts of a register, or of a part, begin: ``w.`` and ``w[``."""
    return f"{label}.", f"{label}["


def around(label: str) -> Iterator[str]:
    """Yield the label itself, ``w['a'].b``, then the labels it may be a part of: ``w['a']``, ``w``.

    Quoted keys may contain dots and brackets, so some of the results may be no label at all.
    """
    yield label
    for end in range(len(label) - 1, 0, -1):
        if label[end] in ".[":
            yield label[:end]


def nearest(label: str, among: Container[str]) -> str | None:
    """The label itself if it is in `among`, else the longest one in there of what contains that part."""
    return next((each for each in around(label) if each in among), None)


def is_within(label: str, other: str) -> bool:
    """Whether a label is `other`, or that of a part of it."""
    return label == other or label.startswith(inside(other))


def is_public(name: object) -> bool:
    """Whether it may be the name of a register."""
    # A cell may put anything into globals(), also keys that are not text.
    return isinstance(name, str) and not name.startswith("_")
