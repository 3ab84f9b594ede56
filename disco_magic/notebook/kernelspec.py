"""``python -m disco_magic.notebook.kernel install|uninstall``: puts the kernel where Jupyter finds it.

A wheel contains the specification under ``share/jupyter/kernels``. This is for editable installs, which do
not place such files, for kernels with other options, and for a Jupyter in another environment.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from jupyter_core.paths import jupyter_data_dir

from disco_magic.core.topology import Topology
from disco_magic.notebook import option_types as of
from disco_magic.notebook.options import add_session_options

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "disco"
_FOLDER: Final = "share/jupyter/kernels/disco"


def data_folder() -> Path:
    """The folder with kernel.json and the logos: in the source tree, or where the wheel put them."""
    in_tree = Path(__file__).parents[2] / "kernel" / "disco"
    if (in_tree / "kernel.json").is_file():
        return in_tree
    try:
        installed = files("disco-magic") or []
    except PackageNotFoundError:
        installed = []
    for path in installed:
        if path.name == "kernel.json" and _FOLDER in path.as_posix():
            return Path(str(path.locate())).resolve().parent
    raise FileNotFoundError(
        f"kernel.json of the Disco kernel is neither at {in_tree} nor among the installed files of "
        "disco-magic; install the package again"
    )


def spec(folder: Path, *, display_name: str | None = None, options: Sequence[str] = ()) -> dict[str, Any]:
    """kernel.json for this interpreter, which a Jupyter in any environment can start."""
    found: dict[str, Any] = json.loads((folder / "kernel.json").read_text())
    found["argv"] = [sys.executable, *found["argv"][1:], *options]
    if display_name is not None:
        found["display_name"] = display_name
    return found


def install(
    name: str = NAME,
    *,
    user: bool = False,
    prefix: str | None = None,
    display_name: str | None = None,
    options: Sequence[str] = (),
) -> str:
    """Install the kernel as `name`, replacing one of that name; return the folder.

    Args:
        name: the name for ``jupyter --kernel``.
        user: for the current user, in every environment.
        prefix: an environment; None and not `user`: for the whole system.
        display_name: what the launcher shows; by default that of kernel.json, followed by an unusual `name`.
        options: options of the kernel, like ``--workers=8``.
    """
    source = data_folder()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "disco"
        shutil.copytree(source, folder)
        made = spec(source, display_name=display_name, options=options)
        if display_name is None and name != NAME:
            made["display_name"] += f" {name}"
        (folder / "kernel.json").write_text(json.dumps(made, indent=1) + "\n")
        where: str = KernelSpecManager().install_kernel_spec(
            str(folder), kernel_name=name, user=user, prefix=prefix
        )
    return where


def uninstall(name: str = NAME, *, user: bool = False, prefix: str | None = None) -> str:
    """Remove the kernel `name`; return the removed folder.

    Args:
        name: the name that `install` was given.
        user: remove the current user's.
        prefix: remove the one of this environment; None and not `user`: the one that Jupyter finds first.
    """
    manager = KernelSpecManager()
    if user or prefix is not None:
        jupyter = jupyter_data_dir() if prefix is None else str(Path(prefix, "share", "jupyter"))
        manager.kernel_dirs = [str(Path(jupyter, "kernels"))]
    if "disco_magic.notebook.kernel" not in manager.get_kernel_spec(name).argv:
        raise ValueError(
            f"kernel {name!r} is not one of disco_magic; jupyter kernelspec uninstall removes any"
        )
    removed: str = manager.remove_kernel_spec(name)
    return removed


def _options(asked: argparse.Namespace) -> list[str]:
    """The options of the sessions that the kernel starts."""
    return [f"--{name}={value}" for name in of.SESSION if (value := getattr(asked, name)) is not None]


def main(arguments: Sequence[str]) -> int | str:
    """Run ``install ...`` or ``uninstall ...``; return the exit status, or an error text."""
    asked = _parser().parse_args(arguments)
    prefix = sys.prefix if asked.sys_prefix else asked.prefix
    try:
        if asked.command == "install":
            _refuse_impossible(asked)
        if asked.command == "uninstall":
            print(f"removed {uninstall(asked.name, user=asked.user, prefix=prefix)}")
            return 0
        where = install(
            asked.name,
            user=asked.user,
            prefix=prefix,
            display_name=asked.display_name,
            options=_options(asked),
        )
    except NoSuchKernel:
        return f"there is no kernel {asked.name!r}; jupyter kernelspec list shows what there is"
    except PermissionError as error:
        advice = "; --user installs it for you alone, --sys-prefix into this Python's environment"
        return f"{error}{advice if asked.command == 'install' else ''}"
    except (OSError, ValueError) as error:
        return str(error)
    print(f"installed {asked.name} in {where}")
    return 0


def _refuse_impossible(asked: argparse.Namespace) -> None:
    """Raise UsageMistake for numbers that no session can have together."""
    mesh = of.mesh_named(asked.mesh)
    workers = asked.workers or mesh.num_workers
    if workers:
        Topology(workers, asked.groups or 1, mesh)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m disco_magic.notebook.kernel", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    put = commands.add_parser("install", help="put the kernel where Jupyter looks for kernels")
    put.add_argument("--display-name", metavar="TEXT", help="what the launcher shows")
    add_session_options(put.add_argument_group("the kernel's sessions").add_argument)
    remove = commands.add_parser("uninstall", help="remove it again")
    for each, nowhere in ((put, "for the whole system"), (remove, "where Jupyter finds it first")):
        where = each.add_mutually_exclusive_group()
        where.add_argument("--user", action="store_true", help="for you, in every environment")
        where.add_argument("--sys-prefix", action="store_true", help="in this Python's environment")
        where.add_argument("--prefix", metavar="FOLDER", help=f"in another one; none of these: {nowhere}")
        each.add_argument("--name", default=NAME, help=f"the kernel's name for Jupyter ({NAME})")
    return parser
