"""Which modules a program imports, as far as its source and theirs show it."""

from __future__ import annotations

import dis
import re
from contextlib import suppress
from itertools import accumulate, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import CodeType

_IMPORTS: Final = (dis.opmap["IMPORT_NAME"], dis.opmap["IMPORT_FROM"])
_WORD: Final = re.compile(r"\w+")
# Code with one of these words may import what a command line or a file names.
_ANYTHING: Final = frozenset({"__import__", "hydra", "import_module", "run_module", "run_path"})


def used_by(source: str, files: Mapping[str, str]) -> set[str]:
    """Those modules whose names a program mentions, or whose names one of those does; or all.

    Names that are given as text count, too: frameworks import by them. That a module is mentioned does not
    mean that it is imported. All count if the program, or one of those modules, may import any.

    Args:
        source: the program's, and the names of the packages that it is in.
        files: of the modules in question, by name.
    """
    used, waiting = set[str](), [source]
    while waiting:
        words = set(_WORD.findall(waiting.pop()))
        if not words.isdisjoint(_ANYTHING):
            return set(files)
        found = {name for name in files.keys() - used if name.rpartition(".")[2] in words}
        used |= found
        for name in found:
            with suppress(OSError):
                waiting.append(Path(files[name]).read_text("utf-8", errors="replace"))
    return used


def imports_of(code: CodeType) -> frozenset[str]:
    """Modules that code imports, and the packages around them; without the imports of its functions.

    For ``from package import name`` this includes ``package.name``, which need not be a module.
    """
    # Most cells import nothing, or only in their first lines; disassembling all takes up to 10 ms.
    operations = code.co_code[::2]
    end = 2 * max(map(operations.rfind, _IMPORTS))
    if end < 0:
        return frozenset()
    found, home = set[str](), ""
    for step in takewhile(lambda step: step.offset <= end, dis.get_instructions(code)):
        if step.opname == "IMPORT_NAME":
            home = step.argval
            found.update(_around(home))
        elif step.opname == "IMPORT_FROM":
            found.add(f"{home}.{step.argval}")
    return frozenset(found)


def _around(name: str) -> Iterator[str]:
    """That module, after the packages around it."""
    return accumulate(name.split("."), lambda package, inner: f"{package}.{inner}")
