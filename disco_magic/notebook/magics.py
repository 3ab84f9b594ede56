"""The magics ``%disco`` and ``%%disco``, and their configuration."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError
from IPython.core.magic import cell_magic, line_cell_magic, line_magic, magics_class, no_var_expand

from disco_magic.errors import DiscoError
from disco_magic.notebook.cell_options import cell_parser
from disco_magic.notebook.commands.table import overview, perform
from disco_magic.notebook.debugging.postmortem import LastFailure
from disco_magic.notebook.facade import line_magic_refused
from disco_magic.notebook.options import HelpAskedFor
from disco_magic.notebook.plain import run_here
from disco_magic.notebook.settings import DiscoSettings
from disco_magic.notebook.tracebacks import dress
from disco_magic.session.sigint import import_whole

if TYPE_CHECKING:
    from disco_magic.notebook.front import Front
    from disco_magic.notebook.handle import CellHandle
    from disco_magic.session.results import CellResult

_EXECUTION: Final = "disco_magic.notebook.execution"


@magics_class
class DiscoMagics(DiscoSettings):
    """SPMD cells: ``%config DiscoMagics.workers = 8``, or in ipython_config.py."""

    front: Front

    @no_var_expand
    @line_cell_magic
    def disco(self, line: str, cell: str | None = None) -> Any:
        """Run a cell on the workers, or a command; %disco -h and %%disco -h list what there is."""
        try:
            if cell is None:
                return perform(self.front, line)
            import_whole(_EXECUTION)  # brings NumPy; loading the extension does not
            from disco_magic.notebook.execution import execute

            return execute(self.front, line, cell)
        except HelpAskedFor as text:
            print(text)
        except (DiscoError, KeyboardInterrupt) as error:
            raise dress(self.shell, error)  # noqa: B904 - the same exception
        finally:
            self.last_failure.settle()

    async def run_awaited(self, line: str | None, body: str) -> CellResult | CellHandle | None:
        """Run a cell on the workers and await it; see `execution.execute_awaited`."""
        try:
            import_whole(_EXECUTION)
            from disco_magic.notebook.execution import execute_awaited

            return await execute_awaited(self.front, line, body)
        except HelpAskedFor as text:
            print(text)
            return None
        except (DiscoError, KeyboardInterrupt) as error:
            raise dress(self.shell, error)  # noqa: B904 - the same exception
        finally:
            self.last_failure.settle()

    @cached_property
    def last_failure(self) -> LastFailure:
        """The failure that ``%disco debug`` opens."""
        return LastFailure()

    def cell_ended(self, *_: object) -> None:
        """Keep the failures on workers of the cell that has just ended, for ``%disco debug``."""
        self.last_failure.note_shown(self.front.sessions, self.shell)
        self.last_failure.settle()  # it may have ended their session

    @no_var_expand
    @cell_magic
    def local(self, line: str, cell: str) -> Any:
        """Run the cell in the notebook's process, even if plain cells run on the workers."""
        if line.strip() or not cell.lstrip().startswith("%%"):
            # `PlainCells` removes the line before IPython looks for magics, unless another magic follows.
            raise UsageError("%%local takes nothing: it stands alone in the first line of the cell")
        return run_here(self.shell, cell)

    # Below another line, also below a comment, IPython takes `%%disco` for the line magic of this name.
    @no_var_expand
    @line_magic("%disco")  # type: ignore[arg-type]  # IPython's
    def disco_below_a_line(self, _: str) -> None:
        """Say where ``%%disco`` has to stand; IPython would say that there is no such magic."""
        raise UsageError(line_magic_refused("%disco", ""))

    @no_var_expand
    @line_magic("%local")  # type: ignore[arg-type]  # IPython's
    def local_below_a_line(self, _: str) -> None:
        """As `disco_below_a_line`."""
        raise UsageError(line_magic_refused("%local", ""))


def _help() -> str:
    return f"{overview()}\n\n{cell_parser().format_help()}"


# IPython asks this before the docstring, for `%disco?` and Shift-Tab. To make the text takes all commands, of
# which %load_ext imports none.
DiscoMagics.disco.getdoc = _help  # type: ignore[union-attr]
