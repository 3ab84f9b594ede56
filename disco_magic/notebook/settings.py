"""The settings, from ``%config``, ipython_config.py, the command line, or environment variables."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final, Self

from IPython.core.magic import Magics
from traitlets import Enum, Float, Int, TraitError, Unicode, default, validate
from traitlets.config import Config
from traitlets.config.loader import DeferredConfigString

from disco_magic.errors import UsageMistake
from disco_magic.notebook.option_types import KINDS, MODES, PLANES, mesh_named, modules_named
from disco_magic.notebook.shell import request_of
from disco_magic.phrases import words

if TYPE_CHECKING:
    from traitlets import Bunch

ENVIRONMENT: Final = {
    name: f"DISCO_{name.upper()}" for name in ("workers", "groups", "mesh", "kind", "ccl", "output")
}
"""Environment variables with defaults for unattended machines, which test notebooks or build documentation.
DISCO_DEVICES is another one; its text is checked only when a session is started."""


class Count(Int[int, int]):
    """A number whose owner knows whether it was set explicitly, even to its default."""

    def set(self, obj: Any, value: Any) -> None:
        """Set `value`, and note that it was set explicitly."""
        super().set(obj, value)
        obj.chosen.add(self.name)


class Time(Float[float | None, float | None]):
    """Seconds, or None; ``none`` as the options of cells have it."""

    def validate(self, obj: Any, value: Any) -> float | None:
        """Return the setting for `value`."""
        return None if value == "none" else super().validate(obj, value)

    def from_string(self, s: str) -> float | None:
        """Return the setting for the text `s`, from a command line."""
        return None if s == "none" else super().from_string(s)


class DiscoSettings(Magics):
    """The settings of `DiscoMagics`; they are configured under that name.

    Attributes:
        chosen: numbers that were set explicitly, even to their defaults.
    """

    workers = Count(
        4,
        min=1,
        help="How many workers a session has that %disco start or the first %%disco starts. If neither this "
        "nor DISCO_WORKERS in the environment is set: one per GPU if there are GPUs, else 4.",
    ).tag(config=True)
    groups = Int(1, min=1, help="How many groups of equal size the workers form; 1 unless set.").tag(
        config=True
    )
    mesh = Unicode(
        "",
        help="Named axes of a mesh in which the workers stand, as in dp=2,tp=4, and which collectives can go "
        "over; none, unless set. It says how many workers there are, unless that is configured, too.",
    ).tag(config=True)
    kind = Enum(KINDS, "threads", help="What the workers are: threads of this process.").tag(config=True)
    ccl = Enum(
        PLANES,
        "auto",
        help="What carries collectives: threads on the CPU, device between workers that share a GPU, nccl "
        "between GPUs; or auto, which is what fits the devices, unless set.",
    ).tag(config=True)
    devices = Unicode(
        "auto",
        help="Where the workers compute: a GPU for each, as in 0,1 or 0,0; cpu; or auto, which is one GPU "
        "per worker if there are any, unless this or DISCO_DEVICES in the environment is set.",
    ).tag(config=True)
    own_modules = Unicode(
        "",
        help="Modules that each worker imports for itself, so that their global variables are its own, as in "
        "processes: megatron,utils; or . for all that are no library's, which holds from the first program "
        "on unless this is none.",
    ).tag(config=True)
    output = Enum(
        MODES,
        "live",
        help="How cells show output, as --output does; live, unless this or DISCO_OUTPUT in the environment "
        "is set. With ordered or grouped, outputs come at the end and are the same every time, for notebooks "
        "that are compared or published.",
    ).tag(config=True)
    progress_after = Time(
        1.0,
        allow_none=True,
        help="Seconds without output after which a cell shows where its workers are, as --progress-after "
        "has it; None, 'none' or -1: never; 1 unless set.",
    ).tag(config=True)
    timeout = Time(
        None,
        allow_none=True,
        help="Seconds after which a cell is stopped, as with --timeout; None or 'none': never, which holds "
        "unless set.",
    ).tag(config=True)

    def __init__(self, shell: Any, **kwargs: Any) -> None:
        self.chosen: set[str] = set()
        super().__init__(shell, **kwargs)
        configured = self._find_my_config(self.config)
        for name, variable in ENVIRONMENT.items():
            text = os.environ.get(variable)
            if text and name not in configured:
                self._take(name, DeferredConfigString(text), f"{variable} is {text!r}; ")

    @default("devices")
    def _devices(self) -> str:
        return os.environ.get("DISCO_DEVICES") or "auto"

    @validate("timeout", "progress_after")
    def _time(self, proposal: Bunch) -> float | None:
        value: float | None = proposal.value
        is_progress = proposal.trait.name == "progress_after"
        if is_progress and value == -1:  # as the option has it
            return None
        if value is None or value > 0 or (value == 0 and is_progress):
            return value
        least = "0 or more" if is_progress else "more than 0"
        raise TraitError(
            f"The {proposal.trait.name!r} trait of a DiscoMagics instance expected seconds, {least}, or "
            f"None, not {value!r}."
        )

    @validate("mesh", "own_modules")
    def _named(self, proposal: Bunch) -> str:
        text: str = proposal.value
        name = proposal.trait.name
        try:
            mesh_named(text) if name == "mesh" else modules_named(text)
        except UsageMistake as reason:
            raise TraitError(f"The {name!r} trait of a DiscoMagics instance: {reason}.") from None
        return text

    @classmethod
    def configured(cls, shell: Any) -> Self:
        """The magics with the shell's configuration; an impossible value is reported and ignored.

        ``%config`` only logs such a value but keeps it in ``shell.config``, where it would make every later
        ``%load_ext`` in this kernel fail.
        """
        before = list(shell.configurables)
        try:
            return cls(shell, parent=shell)
        except TraitError:
            shell.configurables[:] = before
        magics = cls(shell, parent=shell, config=Config())
        for name, value in magics._find_my_config(shell.config).items():
            magics._take(name, value)
        return magics

    def _take(self, name: str, value: Any, source: str = "") -> None:
        """Configure one setting; an impossible value is reported in a line and ignored."""
        try:
            self.update_config(Config({type(self).__name__: {name: value}}))
        except TraitError as reason:
            _tell(
                self.shell,
                f"disco_magic: {source}DiscoMagics.{name} stays {getattr(self, name)!r}: {words(reason)}",
            )

    @property
    def expected(self) -> int:
        """The number of workers that a session started now would have, as far as it is configured."""
        mesh = mesh_named(self.mesh)
        number: int = self.workers
        return mesh.num_workers if mesh and "workers" not in self.chosen else number

    def workers_for(self, devices: str, ccl: str) -> int | None:
        """The number of workers of a session without -n; None: as many as there are devices."""
        if devices not in ("auto", "cpu"):
            return None
        configured: int = self.workers
        if "workers" in self.chosen or devices == "cpu":
            return configured
        from disco_magic.devices.find import count_gpus

        return None if count_gpus() and ccl != "device" else configured


def _tell(shell: Any, line: str) -> None:
    """Print a line to stderr; before a kernel's first cell, print it again in that cell.

    Front ends do not show what a kernel prints while it starts: that goes to the server's log.
    """
    print(line, file=sys.stderr)
    if not hasattr(shell, "kernel") or request_of(shell):
        return

    def tell_again(*_: object) -> None:
        if not request_of(shell):  # a cell that the kernel runs at its start: `exec_lines`, startup files
            return
        shell.events.unregister("pre_run_cell", tell_again)
        print(line, file=sys.stderr)

    shell.events.register("pre_run_cell", tell_again)
