"""Modules that are written for a test, and where they are found."""

from __future__ import annotations

import importlib
import textwrap

FILES = {
    "state.py": """
        from __future__ import annotations
        from dataclasses import dataclass
        from typing import ClassVar
        import package.inner
        from package import other
        rank = None
        @dataclass
        class Config:
            number: int
            kind: ClassVar[str] = "plain"
        def start(number):
            global rank
            rank = number
            package.inner.seen.append(number)
        def which():
            return rank
    """,
    "package/__init__.py": "from .other import told\n__all__ = ['late', 'told']\n",
    "package/inner.py": "seen = []\n",
    "package/other.py": "from . import inner\ntold = []\n",
    "package/late.py": "from package import other\nname = __name__\n",
    "library.py": """
        kept = []
        def rank():
            import state
            return state.rank
        def add(x):
            kept.append(x)
            return kept
    """,
}


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    importlib.invalidate_caches()
