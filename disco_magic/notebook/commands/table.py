"""All ``%disco`` subcommands by name, and the function that executes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors import UsageMistake
from disco_magic.notebook.commands import auto, checking, debugging, life, listing, looking, moving, running
from disco_magic.notebook.expansion import with_variables
from disco_magic.phrases import near_misses

if TYPE_CHECKING:
    from disco_magic.notebook.commands.command import Command
    from disco_magic.notebook.front import Front

# In the order of the help.
COMMANDS: Final[dict[str, Command]] = {
    "start": life.START,
    "stop": life.STOP,
    "restart": life.RESTART,
    "status": life.STATUS,
    "registers": looking.REGISTERS,
    "timeline": looking.TIMELINE,
    "check": checking.CHECK,
    "who": listing.WHO,
    "whos": listing.WHOS,
    "log": listing.LOG,
    "sync": life.SYNC,
    "interrupt": life.INTERRUPT,
    "debug": debugging.DEBUG,
    "run": running.RUN,
    "put": moving.PUT,
    "get": moving.GET,
    "broadcast": moving.BROADCAST,
    "scatter": moving.SCATTER,
    "gather": moving.GATHER,
    "rm": moving.RM,
    "auto": auto.AUTO,
}

# Names that users may expect -> what to use instead.
_HINTS: Final = {
    "push": "%disco broadcast copies variables to the workers, %%disco --push before a cell",
    "pull": "%disco get copies registers to the notebook, %%disco --pull after a cell",
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
    command = COMMANDS[name]
    options = command.parser.read(with_variables(front, rest) if command.expands else rest)
    named = getattr(options, "session", None)
    if named is None:
        return command.run(front, options)
    with front.sessions.aimed_at(front.session_in(named)):
        return command.run(front, options)


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
    lines = [f"  {name:<{width}}  {command.parser.description}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: %disco COMMAND ...",
            "",
            *lines,
            "",
            "%disco COMMAND -h shows a command's options, %%disco -h those of cells.",
        ]
    )
