"""What each file is for: ``python -m tests.file_list --write`` puts it into docs/files.md."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING

from tests.test_layers import HEIGHT, PACKAGE

if TYPE_CHECKING:
    from pathlib import Path

PAGE = PACKAGE.parent / "docs" / "files.md"
_HEAD = """# Files

What each file is for, in its own words: the first sentence of its docstring, or comment. The highest layer
comes first, as in [the architecture](../ARCHITECTURE.md#layers). `python -m tests.file_list --write` writes
this page, and a test compares it.
"""


def said_by(path: Path) -> str:
    """The first sentence of a file about itself, as a cell of a table."""
    text = path.read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(text)) if path.suffix == ".py" else text.replace("\n// ", " ")[3:]
    sentence = re.split(r"(?<=\.)\s|\n\n", said or "", maxsplit=1)[0]
    return " ".join(sentence.split()).replace("``", "`").replace("|", "\\|")


def render() -> str:
    """The page."""
    folders: dict[Path, list[Path]] = {}
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".cu"):
            folders.setdefault(path.parent.relative_to(PACKAGE), []).append(path)

    def place(folder: Path) -> tuple[int, Path]:
        return -HEIGHT[folder.parts[0]] if folder.parts else 1, folder

    parts = [_HEAD]
    for folder in sorted(folders, key=place):
        paths = sorted(each for each in folders[folder] if each.name != "__init__.py")
        where = "disco_magic" if not folder.parts else f"disco_magic/{folder.as_posix()}"
        rows = "\n".join(f"| `{path.name}` | {said_by(path)} |" for path in paths)
        what = said_by(PACKAGE / folder / "__init__.py")
        parts.append(f"## `{where}`\n\n{what}\n\n| file | what it is for |\n|---|---|\n{rows}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(render(), encoding="utf-8")
    else:
        sys.exit(__doc__)
