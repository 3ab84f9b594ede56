"""Refuses ``$name`` and ``{name}`` in the notebook's ``!commands`` and magics if only workers know the name.

IPython leaves a name that it does not find as it is, and the shell makes nothing of it:
``!rm -r $out/cache`` would begin at the root. In the Disco kernel all names that cells bind are the workers'.

On the lines of our own magics, one unknown name does not keep the others from being replaced.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError
from IPython.utils.text import DollarFormatter

from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.notebook.strays import way_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from string import Formatter
    from types import FrameType

    from disco_magic.notebook.front import Front

# ``{{`` and ``}}`` are braces.
_FIELD: Final = re.compile(r"\{\{|\}\}|\{[^{}]*\}|\$\w+")


def guard_expansion(front: Front) -> Callable[[], None]:
    """Replace ``shell.var_expand``; return what restores it."""

    @replacing(front.shell, "var_expand")
    def expanded(cmd: str, depth: int = 0, formatter: Formatter | None = None) -> Any:
        """IPython's signature: the text, and how many callers away the frame is that also knows names."""
        used = formatter or DollarFormatter()
        try:
            around = sys._getframe(depth + 1).f_locals  # noqa: SLF001 - as IPython does
        except ValueError:  # there are not so many
            around = {}
        refuse_registers(front, cmd, around, used)
        return expanded.below(cmd, depth + 1, used)

    return replace_all([expanded])


def refuse_registers(
    front: Front, text: str, around: Mapping[str, Any], formatter: Formatter | None = None
) -> None:
    """Refuse ``$name`` and ``{name}`` that only workers know.

    Args:
        front: the notebook's side.
        text: what IPython would expand.
        around: variables that are known besides the notebook's.
        formatter: finds the fields in the text; None: IPython's.
    """
    for name in dict.fromkeys(_names_in(text, formatter or DollarFormatter())):
        holders = front.sessions.holders(name)
        if holders and not any(name in known for known in (around, front.shell.user_ns, os.environ)):
            raise UsageError(
                f"{text.strip()}: {way_here(name, holders)}; below %%disco, such a line runs on every worker"
            )


def with_variables(front: Front, line: str) -> str:
    """Replace ``{lr}`` and ``$lr`` by values, as IPython does; leave unknown names as they are."""
    if _FIELD.search(line) is None:
        return line  # before the notebook's variables are copied
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - IPython finds the caller's variables so
    shell = type(front.shell)
    calls = shell.run_line_magic.__code__, shell.run_cell_magic.__code__
    while frame is not None and frame.f_code not in calls:
        frame = frame.f_back
    around = None if frame is None else frame.f_back
    scope = {**front.shell.user_ns, **({} if around is None else around.f_locals)}

    def value(field: re.Match[str]) -> str:
        refuse_registers(front, field[0], scope)
        try:
            return str(DollarFormatter().vformat(field[0], (), scope))
        except Exception:  # noqa: BLE001 - whatever the expression raises: it was none
            return field[0]

    return _FIELD.sub(value, line)


def _names_in(text: str, formatter: Formatter) -> Iterator[str]:
    """The variables that IPython looks up to expand `text`; none if it would leave all of it as it is."""
    try:
        fields = filter(None, [field for _, field, _, _ in formatter.parse(text)])
        trees = [ast.parse(field, mode="eval") for field in fields]
    except (ValueError, SyntaxError):
        return
    for tree in trees:
        yield from (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
