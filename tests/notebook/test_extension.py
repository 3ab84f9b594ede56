"""Loading is cheap, reloading keeps the session, unloading leaves nothing behind."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from unittest.mock import MagicMock

import pytest
from traitlets.config import Configurable

import disco_magic
from disco_magic.errors import UsageMistake
from disco_magic.notebook.extension import Extension, front_of
from disco_magic.session.current import session

SNAPSHOT = """
import sys, threading
from disco_magic.callers.namespaces import in_use
def snapshot():
    ip = get_ipython()
    formatter = ip.display_formatter.mimebundle_formatter
    return {
        "magics": {kind: sorted(table) for kind, table in ip.magics_manager.magics.items()},
        "registry": sorted(ip.magics_manager.registry),
        "configurables": [type(each).__name__ for each in ip.configurables],
        "streams": (sys.stdout, sys.stderr, sys.displayhook),
        "publisher": (ip.display_pub, sorted(vars(ip.display_pub))),
        "interval": sys.getswitchinterval(),
        "events": {name: list(found) for name, found in ip.events.callbacks.items()},
        "matchers": list(ip.Completer.custom_matchers),
        "printers": (list(formatter.type_printers), list(formatter.deferred_printers)),
        "threads": {thread for thread in threading.enumerate() if thread.name.startswith("disco")},
        "namespaces": in_use(),
        "names": set(ip.user_ns),
        "attributes": {name for name in vars(ip) if "disco" in name},
    }
"""
USE = (
    "%disco start -n 2",
    "%%disco\nprint(worker_id)\nnp.ones(2)",
    "%disco registers",
    "%%disco\n1 / 0",
    "%%disco --nowait\nwhile True:\n    i = 1\n    i += 1",
    "%disco status",
)


def use(shell):
    for code in USE:
        shell.ip.run_cell(code)


def test_unloading_restores_the_state_before_loading(bare):
    bare.ip.push({"get_ipython": lambda: bare.ip})
    bare.ip.run_cell(SNAPSHOT)
    snapshot = bare.ip.user_ns["snapshot"]
    bare.ip.run_line_magic("lsmagic", "")
    bare.ip.run_cell("%unload_ext disco_magic")  # IPython itself loads its magics when they are first used
    before = snapshot()
    bare.run("%load_ext disco_magic")
    use(bare)
    bare.run("%unload_ext disco_magic")
    after = snapshot()
    out = {"_", "__", "___", *(name for name in after["names"] if name.startswith("_"))}
    after["names"] -= out
    before["names"] -= out
    assert after == before


def test_the_inspectors_are_told_when_a_cell_begins_and_when_it_ends(bare):
    bare.run("%load_ext disco_magic")
    refresher = front_of(bare.ip).refresher
    bare.ip.push({"refresher": refresher})
    bare.ip.run_cell("within = refresher._next")
    assert bare.ip.user_ns["within"] is not None
    assert refresher._next is None


def test_loading_again_after_unloading_works(bare):
    for _ in range(2):
        bare.run("%load_ext disco_magic")
        bare.run("%disco start -n 1")
        bare.run("%%disco\n5")
        assert bare.lines[-1].endswith("[0] 5")
        bare.run("%unload_ext disco_magic")


def test_loading_twice_changes_nothing(shell):
    before = list(shell.ip.configurables)
    shell.run("%load_ext disco_magic")
    disco_magic.load_ipython_extension(shell.ip)
    assert shell.ip.configurables == before


def test_reloading_keeps_the_session_and_its_registers(crew):
    crew.run("%%disco\nx = worker_id")
    crew.run("%reload_ext disco_magic")
    assert crew.run("%%disco\nx").values == list(range(crew.n))
    assert [type(each).__name__ for each in crew.ip.configurables].count("DiscoMagics") == 1
    crew.run("%unload_ext disco_magic")
    assert not [t for t in threading.enumerate() if t.name.startswith("disco") and t.is_alive()]


def test_unloading_what_is_not_loaded_is_no_error(bare):
    disco_magic.unload_ipython_extension(bare.ip)
    assert "disco" not in bare.ip.magics_manager.magics["line"]


@pytest.mark.parametrize(
    "load",
    [
        "ip.run_line_magic('load_ext', 'disco_magic')",
        "ip.run_cell('%load_ext disco_magic').raise_error()\nip.run_cell('x = 1').raise_error()",
    ],
    ids=["by itself", "in a cell with another one after it"],
)
def test_loading_starts_no_thread_and_imports_no_array_library_and_no_widgets(load):
    program = (
        "import sys, threading\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "from traitlets.config import Config\n"
        "config = Config()\nconfig.HistoryManager.enabled = False\n"
        "ip = InteractiveShell(config=config)\n"
        "before = threading.active_count()\n"
        f"{load}\n"
        "assert threading.active_count() == before\n"
        "found = {'numpy', 'ipywidgets', 'pandas', 'matplotlib', 'cupy', 'mpi4py'} & set(sys.modules)\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)  # noqa: S603 - our own program


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("%load_ext disco_magic", ["table"]),
        ("%load_ext disco_magic\n%disco auto off", ["auto", "command", "table"]),
    ],
)
def test_a_command_is_imported_when_it_is_typed(line, kept):
    program = (
        "import sys\nfrom IPython.core.interactiveshell import InteractiveShell\n"
        "from traitlets.config import Config\n"
        "config = Config()\nconfig.HistoryManager.enabled = False\n"
        f"assert InteractiveShell(config=config).run_cell({line!r}).success\n"
        "there = [name for name in sys.modules if name.startswith('disco_magic.notebook.commands.')]\n"
        "print(*sorted(name.rpartition('.')[2] for name in there))\n"
    )
    told = subprocess.check_output([sys.executable, "-c", program], timeout=60, text=True)  # noqa: S603 - our own program
    assert told.splitlines()[-1].split() == kept


def test_what_checks_and_looks_into_registers_need_is_not_imported_by_cells():
    cells = ["%disco start -n 2", "x = np.ones(3)", "allreduce(x).sum()", "%disco stop"]
    program = (
        "import sys\nfrom IPython.core.interactiveshell import InteractiveShell\n"
        "from traitlets.config import Config\n"
        "config = Config()\nconfig.HistoryManager.enabled = False\n"
        "shell = InteractiveShell(config=config)\nshell.run_line_magic('load_ext', 'disco_magic')\n"
        f"for cell in {cells}:\n"
        "    assert shell.run_cell(cell if cell.startswith('%') else '%%disco\\n' + cell).success\n"
        "rare = {'core.report', 'functions.agreement', 'session.comparing', 'session.looking_into',\n"
        "        'values.divergence'}\n"
        "found = {each for each in rare if f'disco_magic.{each}' in sys.modules}\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)  # noqa: S603 - our own program


def test_loading_does_not_import_what_only_cells_and_programs_need():
    program = (
        "import sys\nfrom IPython.core.interactiveshell import InteractiveShell\n"
        "from traitlets.config import Config\n"
        "config = Config()\nconfig.HistoryManager.enabled = False\n"
        "InteractiveShell(config=config).run_line_magic('load_ext', 'disco_magic')\n"
        "ours = [name for name in sys.modules if name.startswith('disco_magic.functions')]\n"
        "assert not ours, ours\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)  # noqa: S603 - our own program


class LightShell(Configurable):
    """What loading touches of a shell; IPython's own shells are never freed, whoever lets go of them."""

    def __init__(self):
        super().__init__()
        self.configurables, self.input_transformers_cleanup = [], []
        self.display_formatter = self.display_pub = self.Completer = self.events = MagicMock()

    def var_expand(self, cmd):
        return cmd

    def register_magics(self, magics):
        self.magics_manager = MagicMock(magics={"line": {}}, registry={"DiscoMagics": magics})


def test_a_shell_that_nobody_else_holds_is_freed_also_while_the_extension_is_loaded():
    shell = LightShell()
    disco_magic.load_ipython_extension(shell)
    extension = next(value for value in vars(shell).values() if isinstance(value, Extension))
    gone = [weakref.ref(shell), weakref.ref(extension)]
    del shell, extension
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_unloading_takes_everything_out_whatever_a_step_meets(shell, monkeypatch):
    # A step that raised left what came behind it in the shell for good: nothing was left to remove it.
    ip = shell.ip
    shell.run("%disco start -n 2")
    ip.input_transformers_cleanup[:] = [
        each for each in ip.input_transformers_cleanup if type(each).__name__ != "PlainCells"
    ]
    ip.Completer.custom_matchers.clear()
    front = ip.__dict__["_disco_magic_extension"].front

    def refuse():
        raise RuntimeError("the views do not close")

    monkeypatch.setattr(type(front.views), "close", lambda _: refuse())
    shell.fail("%unload_ext disco_magic", RuntimeError)
    assert "disco" not in ip.magics_manager.magics["cell"]
    assert "completions" not in vars(ip.Completer)
    with pytest.raises(UsageMistake):
        session()
    monkeypatch.undo()
    shell.run("%reload_ext disco_magic")  # IPython takes it for loaded still
    shell.run("%%disco\nnum_workers")
    assert "[0-3] 4" in shell.out
