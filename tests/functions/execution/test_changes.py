"""Changes in libraries that are named as text: they are there, and imported only with their library."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from disco_magic.callers.per_worker import PerProgram
from disco_magic.functions.execution import changes


def deferred():
    """The modules and names that are deferred, as they are written there: in full, or by a partial call."""
    tree = ast.parse(Path(changes.__file__).read_text(encoding="utf-8"))
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    partials = {
        name: found.args[0]
        for name, found in vars(changes).items()
        if isinstance(found, partial) and found.func is changes.deferred
    }
    named = {(partials[each.func.id], each.args[0].value) for each in calls if each.func.id in partials}
    whole = [each.args for each in calls if each.func.id == "deferred"]
    return sorted(named | {(home.value, name.value) for home, name, *_ in whole})


@pytest.mark.parametrize(("home", "name"), deferred())
def test_what_is_named_as_text_is_there_and_declares_no_settings(home, name):
    module = import_module(home)
    assert callable(getattr(module, name))
    # A cell that has begun notes the settings that it has found; what is declared later would stay changed.
    assert not [each for each in vars(module).values() if type(each) is PerProgram]


SCRIPT = """
import sys
from disco_magic import ThreadedSession
with ThreadedSession(1) as session:
    session.run("1")
print(*sys.modules)
"""


def test_a_session_does_not_import_what_only_other_libraries_need():
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    imported = set(done.stdout.split())
    assert "disco_magic.functions.execution.changes" in imported
    assert not imported & {home for home, _ in deferred()}
