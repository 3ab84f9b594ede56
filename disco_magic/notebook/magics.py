"""``%disco`` and ``%%disco``, and what can be configured about them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from traitlets import Enum, Float, Int, Unicode, default, observe

from disco_magic.errors import DiscoError
from disco_magic.notebook.cell_options import cell_parser
from disco_magic.notebook.commands.table import overview, perform
from disco_magic.notebook.options import HelpAskedFor
from disco_magic.notebook.page import MODES
from disco_magic.notebook.tracebacks import dress

if TYPE_CHECKING:
    from disco_magic.notebook.front import Front


@magics_class
class DiscoMagics(Magics):
    """SPMD cells: ``%config DiscoMagics.workers = 8``, or in ipython_config.py."""

    workers = Int(4, min=1, help="Workers of the session that the first %%disco starts.").tag(config=True)
    groups = Int(1, min=1, help="Groups of equal size that they form.").tag(config=True)
    kind = Enum(["threads"], "threads", help="What the workers are.").tag(config=True)
    ccl = Enum(["auto", "threads", "device", "nccl"], "auto", help="What carries collectives.").tag(
        config=True
    )
    devices = Unicode(
        help="Each worker's GPU, as in 0,1 or 0,0; auto: one worker per GPU, if there are any; cpu: none."
    ).tag(config=True)
    output = Enum(MODES, "live", help="How cells show output, as --output does.").tag(config=True)
    progress_after = Float(
        1.0,
        min=0,
        allow_none=True,
        help="Seconds without output after which a cell shows where its workers are; None: never.",
    ).tag(config=True)

    front: Front
    _workers_chosen = False

    @default("devices")
    def _devices(self) -> str:
        # For machines whose GPUs are somebody else's business, such as those that build documentation.
        return os.environ.get("DISCO_DEVICES", "auto")

    @observe("workers")
    def _workers_were_chosen(self, _: object) -> None:
        self._workers_chosen = True

    def workers_for(self, devices: str, ccl: str) -> int | None:
        """How many workers a session without -n gets; None: as many as there are devices."""
        if devices not in ("auto", "cpu"):
            return None
        if self._workers_chosen or devices == "cpu":
            return self.workers
        from disco_magic.devices.find import count_gpus

        return None if count_gpus() and ccl != "device" else self.workers

    @no_var_expand
    @line_cell_magic
    def disco(self, line: str, cell: str | None = None) -> Any:
        """Replaced by the options' help below."""
        try:
            if cell is None:
                return perform(self.front, line)
            from disco_magic.notebook.execution import execute  # brings NumPy; loading the extension does not

            return execute(self.front, line, cell)
        except HelpAskedFor as text:
            print(text)
        except (DiscoError, KeyboardInterrupt) as error:
            raise dress(self.shell, error)  # noqa: B904 - the same exception, made presentable


DiscoMagics.disco.__doc__ = f"{cell_parser().format_help()}\n{overview()}\n"
