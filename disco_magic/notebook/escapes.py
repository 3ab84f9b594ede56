"""Turns ``!cmd``, ``%magic`` and ``x?`` into Python as IPython does; looks for them only if there may be any.

IPython looks for them among the tokens of a text, which are made by Python code. For a cell of 49 lines this
takes 0.8 ms, three times as long as compiling it (2 cores, CPython 3.11). Before that it looks at each line
for indentation and prompts; here one search says whether there are any.
"""

from __future__ import annotations

import re
from typing import Any, Final

from IPython.core.inputtransformer2 import (
    ESCAPE_SINGLES,
    EscapedCommand,
    HelpEnd,
    MagicAssign,
    SystemAssign,
    cell_magic,
    classic_prompt,
    ipython_prompt,
    leading_empty_lines,
    leading_indent,
)

_BY_LINES: Final = (leading_empty_lines, leading_indent, classic_prompt, ipython_prompt, cell_magic)
# A text that this does not match is the same after these: it begins with a word, it has no prompt and no line
# of blanks, which `dedent` would empty, and no other character ends its lines.
_MAY_CHANGE: Final = re.compile(
    r"\A(?:\s|%%|\Z)|^[ \t]*(?:>>>|\.\.\.)|\bIn \[|^[ \t]+$|[^\S \t\n]", re.MULTILINE
)
_BY_TOKENS: Final = [MagicAssign, SystemAssign, EscapedCommand, HelpEnd]
# In a text that this does not match, none of the above finds anything: there is no question mark, and no line
# and no right side of an assignment begins with an escape. The last alternative is what else may end a line.
_MAY_ESCAPE: Final = re.compile(
    rf"\?|^[ \t]*[{re.escape(''.join(ESCAPE_SINGLES))}]|=[\s\\]*[!%]|[^\S \t\n]", re.MULTILINE
)


def as_python(manager: Any, text: str) -> str:
    """Return what ``manager.transform_cell(text)`` does; `manager` is IPython's `TransformerManager`."""
    text = text if text.endswith("\n") else f"{text}\n"
    lines, stays = text.splitlines(keepends=True), not _MAY_CHANGE.search(text)
    for transform in manager.cleanup_transforms + manager.line_transforms:
        if not (stays and transform in _BY_LINES):
            lines = transform(lines)
            stays = stays and "".join(lines) == text  # the user may have added one that changes it
    # The user may have added some that find something else.
    if manager.token_transformers != _BY_TOKENS or _MAY_ESCAPE.search("".join(lines)):
        lines = manager.do_token_transforms(lines)
    return "".join(lines)
