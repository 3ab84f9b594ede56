"""Output of a cell that goes on after its end, where a tool executes the notebook.

nbclient, and so nbconvert, papermill and ``jupyter execute``, takes from the kernel only what belongs to the
cell that is being executed, and drops the rest. But any cell may update a display, which changes where it
stands. So what a ``--nowait`` cell prints and shows is collected in one display of its own, and the end of
each later cell brings that up to date.
"""

from __future__ import annotations

from functools import partial
from html import escape
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from disco_magic.core.markup import LINE_INDENT
from disco_magic.functions.execution.printed import LIMIT
from disco_magic.notebook.output.arrange import Item, append_lines, display_id
from disco_magic.notebook.output.gallery import ERROR, TEXT, html_of, plain_of
from disco_magic.notebook.output.outlet import split_prefix
from disco_magic.notebook.output.screens import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Pieces:
    """Output that is kept in order, with about `printed.LIMIT` characters of lines; more are counted."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._size = self._left_out = 0

    def add_lines(self, channel: str, lines: Sequence[str]) -> None:
        """Add lines, without newlines, or count them."""
        if self._size > LIMIT:
            self._left_out += len(lines)
            return
        self._size += sum(map(len, lines)) + len(lines)
        append_lines(self.items, channel, lines)

    def clear(self) -> None:
        """Drop all of it."""
        self.items.clear()
        self._size = self._left_out = 0

    def all(self) -> list[Item]:
        """The items, the last of which says how many lines were left out, if any were."""
        said = Item("stdout", [f"... {self._left_out:,} more lines left out ..."])
        return [*self.items, said] if self._left_out else list(self.items)


class Afterwards:
    """The display of one cell. All methods need the lock of the cell's page.

    Attributes:
        streams: channel -> a stream whose lines are shown in the display.
        on_change: called when there is something for `bring_up_to_date` to show.
    """

    def __init__(self, publish: Callable[..., Any]) -> None:
        # That there is a `set_parent` says that it is a notebook's stream. The end of the next cell flushes.
        self.streams = {
            channel: SimpleNamespace(write=partial(self.write, channel), flush=bool, set_parent=None)
            for channel in ("stdout", "stderr")
        }
        self.on_change: Callable[[], object] = bool
        self._value: Mapping[str, Any] = {}
        self._publish = publish
        self._display_id = uuid4().hex
        self._pieces = Pieces()
        self._outdated: set[int | None] = set()  # whose output is replaced by the next; None: everybody's
        self._elsewhere: dict[object, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._changed = True
        self._below: tuple[str, Mapping[str, Any]] | None = None  # what is shown there; None: nothing is yet

    @property
    def value(self) -> Mapping[str, Any]:
        """MIME bundle that the next `bring_up_to_date` shows below the rest, and the one after removes."""
        return self._value

    @value.setter
    def value(self, value: Mapping[str, Any]) -> None:
        self._value = value
        self.on_change()

    @property
    def is_at_rest(self) -> bool:
        """Whether `bring_up_to_date` would change nothing until `on_change` is called again."""
        return not (self._changed or self._value or (self._below is not None and self._below[1]))

    def write(self, channel: str, text: str) -> None:
        """Add whole lines."""
        self._replace(None)
        # Half a surrogate pair, as of a cut file name: the kernel could not send what is collected with it.
        text = text.encode("utf-8", "backslashreplace").decode()
        self._pieces.add_lines(channel, text.removesuffix("\n").split("\n"))

    def display(self, label: str, data: Mapping[str, Any], kwargs: Mapping[str, Any]) -> None:
        """Add a display below its label, or update one; those of other cells are updated with this one."""
        said = display_id(kwargs)
        if kwargs.get("update"):
            mine = [
                item for item in self._pieces.items if not item.is_text and display_id(item.kwargs) == said
            ]
            for item in mine:
                item.data = dict(data)
            if not mine:
                self._elsewhere[said] = data, kwargs
            self._change()
            return
        for worker in (None, *_workers(kwargs)):
            self._replace(worker)
        self._pieces.items.append(
            Item("display", [label] if label else [], data=dict(data), kwargs=dict(kwargs))
        )

    def clear(self, worker: int | None, *, wait: bool) -> None:
        """Remove the displays of a worker, or everything; with `wait`, when the next output comes."""
        self._outdated.add(worker)
        if not wait:
            self._replace(worker)

    def bring_up_to_date(self, note: str, *, empty: str = "", may_come: bool = True) -> None:
        """Show what has come since, and `note` below it; called in the notebook's thread during a cell.

        Where there is nothing to show, that is `empty`: a display cannot be removed. None is made for it
        unless something `may_come` later.
        """
        elsewhere, self._elsewhere = self._elsewhere, {}
        for data, kwargs in elsewhere.values():
            self._publish(data, **kwargs)
        if not (note or self._value or self._pieces.all()):
            if self._below is None and not may_come:
                self._changed = False
                return
            note = empty
        below, self._value = (note, self._value), {}
        if self._changed or below != self._below:
            update, self._below, self._changed = self._below is not None, below, False
            shown, transient = self._data(*below), {"display_id": self._display_id}
            self._publish(shown, metadata={}, transient=transient, update=update)

    def _change(self) -> None:
        self._changed = True
        self.on_change()

    def _replace(self, worker: int | None) -> None:
        self._change()
        if worker not in self._outdated:
            return
        self._outdated.discard(worker)
        if worker is None:
            self._pieces.clear()
        else:
            items = self._pieces.items
            items[:] = [item for item in items if not _is_cleared_by(worker, item)]

    def _data(self, note: str, value: Mapping[str, Any]) -> dict[str, str]:
        items = self._pieces.all()
        items += [Item("stdout", [note])] if note else []
        items += [Item("display", data=dict(value))] if value else []
        texts = [(item.lines if item.is_text else [*item.lines, *plain_of(item)]) for item in items]
        data = {"text/plain": "\n".join(line for lines in texts for line in lines)}
        if any(item.kind == "stderr" or item.data.keys() - {"text/plain"} for item in items):
            data["text/html"] = "".join(map(_html, items))
        return data  # without HTML, front ends show it like printed lines, in colours


def _workers(kwargs: Mapping[str, Any]) -> list[int]:
    """The workers whose display it is, as `Page` has noted."""
    return list((kwargs.get("metadata") or {}).get("disco", {}).get("workers", ()))


def _is_cleared_by(worker: int, item: Item) -> bool:
    """Whether ``clear_output`` of the worker removes it; displays that are updated in place stay."""
    return _workers(item.kwargs) == [worker] and display_id(item.kwargs) is None


def _html(item: Item) -> str:
    lines = ""
    if item.lines:
        text = "\n".join(prefix + escape(clean(rest)) for prefix, rest in map(split_prefix, item.lines))
        lines = f'<div style="{ERROR if item.kind == "stderr" else TEXT};{LINE_INDENT}">{text}</div>'
    return lines if item.is_text else lines + html_of(item)
