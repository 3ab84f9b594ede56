"""Tab completion: subcommands, options and names on ``%disco`` lines; names of the workers in their cells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from IPython.core.completer import SimpleCompletion, context_matcher

from disco_magic.notebook.commands.table import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from disco_magic.notebook.front import Front

_BEHIND: Final = ("np", "num_workers", "worker", "worker_id", "xp")
_IDENTIFIER: Final = re.compile(r"(?<![\w.])[^\W\d]\w*$")


def make_matcher(front: Front) -> Callable[[Any], Any]:
    """A matcher for IPython's completer."""

    def match(context: Any) -> Any:
        words = context.text_until_cursor.lstrip()
        if not words.startswith("%disco "):
            return _in_cell(front, context)
        typed = words.split(" ")[1:]
        found = sorted(name for name in candidates(front, typed[:-1]) if name.startswith(context.token))
        completions = [SimpleCompletion(text=name, type="disco") for name in found]
        return {"completions": completions, "suppress": bool(found)}

    matcher: Callable[[Any], Any] = context_matcher(identifier="disco_magic", priority=1000)(match)
    return matcher


def _in_cell(front: Front, context: Any) -> Any:
    """Registers, and the names behind a worker's namespace, besides what IPython itself offers."""
    before = context.full_text.split("\n")[: context.cursor_line]
    typed = _IDENTIFIER.search(context.text_until_cursor)
    if typed is None or not any(line.lstrip().startswith("%%disco") for line in before):
        return {"completions": [], "suppress": False}
    from disco_magic.functions.context import VERBS  # brings NumPy; loading the extension does not

    session = front.sessions.find()
    known = {*VERBS, *_BEHIND, *(session.names() if session is not None else ())}
    found = [SimpleCompletion(text=name, type="disco") for name in sorted(known) if name.startswith(typed[0])]
    return {"completions": found, "suppress": False, "matched_fragment": typed[0]}


def candidates(front: Front, before: list[str]) -> Iterable[str]:
    """What may come after the words `before` on a ``%disco`` line. Asks no worker."""
    if not before:
        return COMMANDS
    if before[0] not in COMMANDS:
        return ()
    options = {o for action in COMMANDS[before[0]].parser._actions for o in action.option_strings}  # noqa: SLF001 - argparse has no public list
    return options | set(_names(front, before[0]))


def _names(front: Front, command: str) -> Iterable[str]:
    completes = COMMANDS[command].completes
    if completes == "notebook":
        return [name for name in front.shell.user_ns if not name.startswith("_")]
    session = front.sessions.find() if completes == "registers" else None
    return session.names() if session is not None else ()
