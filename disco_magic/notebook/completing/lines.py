"""Completions on ``%disco`` and ``%%disco`` lines: subcommands, options, their values, names."""

from __future__ import annotations

import argparse
import re
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from IPython.core.completer import SimpleCompletion, context_matcher

from disco_magic.notebook.cell_options import cell_parser
from disco_magic.notebook.commands.table import COMMANDS, command_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from disco_magic.notebook.front import Front
    from disco_magic.session.session import Session

_LINE: Final = re.compile(r"\s*(%%?)disco\s")
_SESSION: Final = re.compile(r"--session[ =]\s*(\w+)\s")
_SEVERAL: Final = ("A,B", "Y", "WORKERS", "AXES")


def make_matcher(front: Front) -> Callable[[Any], Any]:
    """A matcher for IPython's completer; waits for no worker."""

    def match(context: Any) -> Any:
        found = _LINE.match(context.text_until_cursor)
        if found is None:
            return {"completions": [], "suppress": False}
        text = context.text_until_cursor[found.end() :]
        of_cell = found[1] == "%%"
        typed = (
            _typed(_asked(front, text), cell_parser(), None, text) if of_cell else _typed_line(front, text)
        )
        completions = [
            SimpleCompletion(text=name, type=kind)
            for name, kind in typed.fitting.items()
            if name.startswith(typed.fragment)
        ]
        return {
            "completions": completions,
            "suppress": bool(completions),
            "matched_fragment": typed.fragment,
        }

    matcher: Callable[[Any], Any] = context_matcher(identifier="disco_magic", priority=1000)(match)
    return matcher


class Asked(NamedTuple):
    """Where the names for completions come from."""

    front: Front
    session: Session | None


class Typed(NamedTuple):
    """The text that is being typed."""

    fragment: str
    fitting: Mapping[str, str]


def _typed_line(front: Front, text: str) -> Typed:
    found = re.match(r"\s*(\S*)(\s*)", text)
    name, gap = found.groups() if found is not None else ("", "")
    rest = text[found.end() :] if found is not None else ""
    if not gap or (name == "help" and " " not in rest):
        return Typed(rest if gap else name, dict.fromkeys(COMMANDS, "command"))
    if name not in COMMANDS:
        return Typed("", {})
    command = command_of(name)
    return _typed(_asked(front, rest), command.parser, command.completes, rest)


def _asked(front: Front, text: str) -> Asked:
    """The session that the options name, or else the current one."""
    named = _SESSION.search(text)
    return Asked(front, front.session_there(named[1] if named else None))


def _typed(asked: Asked, parser: argparse.ArgumentParser, completes: str | None, text: str) -> Typed:
    *before, word = text.split(" ")
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]  # noqa: SLF001 - argparse has no public list
    options = {option: action for action in actions for option in action.option_strings}
    name, sign, value = word.partition("=")
    if sign and name in options:
        return _value(asked, options[name], value)
    last = options.get(next((each for each in reversed(before) if each), ""))
    if last is not None and last.nargs is None:
        return _value(asked, last, word)
    used = [options.get(each.partition("=")[0]) for each in before]
    fitting = {option: "option" for option, action in options.items() if action not in used}
    if last is not None and last.nargs == "?":
        fitting |= _value(asked, last, word).fitting
    for action in (each for each in actions if not each.option_strings):
        fitting |= dict.fromkeys(action.choices or (), "word")
        if action.nargs != "?" or not _has_word(before, options):
            fitting |= _names(asked, completes, word, results=parser.prog.endswith(" rm"))
            fitting |= _parts(asked.session, word) if completes == "parts" else {}
    return Typed(word, {name: kind for name, kind in fitting.items() if name not in before})


def _has_word(words: Sequence[str], options: Mapping[str, argparse.Action]) -> bool:
    """Whether a word is there that is neither an option nor the value of one."""
    takes = [option for option, action in options.items() if action.nargs is None]
    return any(
        each and not each.startswith("-") and before not in takes
        for before, each in pairwise(["", *filter(None, words)])
    )


def _value(asked: Asked, action: argparse.Action, text: str) -> Typed:
    """Complete the value of an option."""
    *others, fragment = text.split(",") if action.metavar in _SEVERAL else [text]
    fitting = _values(asked, action, fragment, alone=not others)
    if others and "=" in others[0]:  # coordinates in the mesh, each axis once
        named = {each.partition("=")[0] for each in others}
        places = {each: kind for each, kind in fitting.items() if kind == "place"}
        fitting = {each: kind for each, kind in places.items() if each.partition("=")[0] not in named}
    return Typed(fragment, {name: kind for name, kind in fitting.items() if name not in others})


def _values(asked: Asked, action: argparse.Action, fragment: str, *, alone: bool) -> Mapping[str, str]:
    if action.choices:
        return dict.fromkeys(map(str, action.choices), "word")
    session = asked.session
    if action.metavar in ("WORKER", "WORKERS") and session is not None:
        every = {"all": "workers"} if alone and action.metavar == "WORKERS" else {}
        places = {f"{axis}={place}": "place" for axis in session.mesh for place in range(session.mesh[axis])}
        return every | {str(worker): "worker" for worker in range(session.num_workers)} | places
    if action.dest == "group" and session is not None:
        return {str(group): "group" for group in range(session.num_groups)}
    if action.dest == "over" and session is not None:
        return dict.fromkeys(session.mesh, "axis")
    if action.dest == "devices":
        return {"auto": "word", "cpu": "word"}
    completes = {"push": "notebook", "pull": "registers", "session": "sessions"}.get(action.dest)
    return _names(asked, completes, fragment)


def _names(asked: Asked, completes: str | None, word: str, *, results: bool = False) -> Mapping[str, str]:
    """The names that could stand there; of registers those that begin with `word`, as a mark costs 15 us."""
    front, session = asked
    found: dict[str, str] = dict(_results(front)) if results else {}
    if completes == "notebook":
        known, hidden = front.shell.user_ns, front.shell.user_ns_hidden  # IPython's own, such as `quit`
        found |= {name: "variable" for name in known if not name.startswith("_") and name not in hidden}
    if completes == "sessions":
        found |= dict.fromkeys(_sessions(front), "session")
    if completes in ("registers", "parts") and session is not None:
        from disco_magic.notebook.completing.summary import marks

        found |= marks(session, [name for name in session.names() if name.startswith(word)])
    return found


def _parts(session: Session | None, word: str) -> Mapping[str, str]:
    """The arrays in the register whose name has been typed, with their descriptions."""
    from disco_magic.notebook.completing.summary import SPACE
    from disco_magic.values.parts import arrays_in, split, together

    name, written = split(word)
    if session is None or not written or name not in session.names():
        return {}
    found = together(session.examine(name, arrays_in))
    typable = [part for part in found if " " not in part.written]  # lines are split at blanks
    return {f"{name}{part.written}": part.kind.replace(" ", SPACE) for part in typable}


def _sessions(front: Front) -> Iterable[str]:
    """The variables that hold an open session, and the numbers of all that are open."""
    module = sys.modules.get("disco_magic.session.session")
    if module is not None:
        yield from (str(each.id) for each in module.current.open_sessions())
        for name, value in dict(front.shell.user_ns).items():
            if isinstance(value, module.Session) and not value.closed and not name.startswith("_"):
                yield name


def _results(front: Front) -> Iterable[tuple[str, str]]:
    """Names of cell results that have values on the workers: ``Out[3]``, and variables."""
    module = sys.modules.get("disco_magic.session.results")
    if module is not None:
        names = front.shell.user_ns
        for number, value in dict(names.get("_oh", {})).items():
            if type(value) is module.CellResult:
                yield f"Out[{number}]", "result"
        for name, value in dict(names).items():
            if type(value) is module.CellResult and not name.startswith("_"):
                yield name, "result"
