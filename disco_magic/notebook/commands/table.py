"""All ``%disco`` subcommands by name, and the function that executes one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors import UsageMistake
from disco_magic.notebook.expansion import with_variables
from disco_magic.phrases import near_misses

if TYPE_CHECKING:
    from disco_magic.notebook.commands.command import Command
    from disco_magic.notebook.front import Front

# In the order of the help: name -> the file that has it. Imported when it is typed: few notebooks type many.
COMMANDS: Final = {
    "start": "life",
    "stop": "life",
    "restart": "life",
    "status": "life",
    "registers": "looking",
    "timeline": "looking",
    "check": "checking",
    "who": "listing",
    "whos": "listing",
    "log": "listing",
    "sync": "life",
    "interrupt": "life",
    "debug": "debugging",
    "run": "running",
    "put": "moving",
    "get": "moving",
    "broadcast": "moving",
    "scatter": "moving",
    "gather": "moving",
    "rm": "moving",
    "auto": "auto",
}

# Names that users may expect -> what to use instead.
_HINTS: Final = {
    "push": "%disco broadcast copies variables to the workers, %%disco --push before a cell",
    "pull": "%disco get copies registers to the notebook, %%disco --pull after a cell",
    "stats": "disco_magic.session().stats() counts and times, %%disco --time times one cell",
    "doctor": "%disco status says who keeps whom waiting",
    "kill": "%disco interrupt stops cells, %disco stop ends the session",
    "shutdown": "%disco stop ends the session",
    "reset": "%disco restart begins again, with empty registers",
    "init": "%disco start -n 4 starts workers",
    **dict.fromkeys(("-n", "--np", "--num-workers"), "%disco start -n 4 starts workers"),
    **dict.fromkeys(("ls", "list", "vars"), "%disco who and %disco registers show what the workers hold"),
}
_CODE: Final = "a cell that begins with %%disco runs code on all workers"


def perform(front: Front, line: str) -> Any:
    """Execute ``%disco line``; return the value for ``Out[n]``."""
    name, rest = _word_and_rest(line)
    if name == "help":  # as in `help timeline`
        name, rest = _word_and_rest(f"{rest} -h")
    if name in ("", "-h", "--help"):
        print(overview())
        return None
    if name not in COMMANDS:
        raise UsageMistake(f"%disco has no subcommand {name!r}; {_instead_of(name, rest)}")
    command = command_of(name)
    options = command.parser.read(with_variables(front, rest) if command.expands else rest)
    named = getattr(options, "session", None)
    if named is None:
        return command.run(front, options)
    with front.sessions.aimed_at(front.session_in(named)):
        return command.run(front, options)


def command_of(name: str) -> Command:
    """The subcommand of that name."""
    found: Command = getattr(import_module(f"disco_magic.notebook.commands.{COMMANDS[name]}"), name.upper())
    return found


def _instead_of(name: str, rest: str) -> str:
    if rest.startswith("="):
        return _CODE
    if told := _HINTS.get(name) or near_misses(name, COMMANDS):
        return told
    is_code = not name.isidentifier() and not name.startswith("-")
    return _CODE if is_code else f"there are: {', '.join(COMMANDS)}"


def _word_and_rest(line: str) -> tuple[str, str]:
    first, rest, *_ = [*line.split(None, 1), "", ""]
    return first, rest


def overview() -> str:
    """The help text of ``%disco``."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command_of(name).parser.description}" for name in COMMANDS]
    return "\n".join(
        [
            "usage: %disco COMMAND ...",
            "",
            *lines,
            "",
            "%disco COMMAND -h shows a command's options, %%disco -h those of cells.",
        ]
    )
