"""The Jupyter kernel "Disco (SPMD)": plain cells run on all workers, ``%%local`` runs one in the kernel.

It is ipykernel's kernel with this package loaded and ``%disco auto on`` from the start. A plain cell becomes
an awaited call::

    front end -- execute_request --> do_execute --> PlainCells: await get_ipython().run_on_workers(...)
                                                      |
    the event loop goes on: widgets, questions        `--> execute_awaited --> a thread waits for the workers

so history, ``In``, counters, events and errors remain IPython's.

``python -m disco_magic.notebook.kernel install`` puts the kernel where Jupyter finds it; see `kernelspec`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp, kernel_aliases
from ipykernel.zmqshell import ZMQInteractiveShell
from tornado.ioloop import IOLoop
from traitlets import Dict, Type

from disco_magic import __version__
from disco_magic.notebook import option_types as of
from disco_magic.notebook.answering import AnsweringKernel
from disco_magic.notebook.extension import front_of, load
from disco_magic.notebook.magics import DiscoMagics
from disco_magic.session.awaiting import ticking
from disco_magic.session.sigint import sigint_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic.notebook.handle import CellHandle
    from disco_magic.session.results import CellResult

LAST_REPLY_S: Final = 0.5
"""How long a shutdown waits for a cell that it has stopped; a local cell may never end."""

_BANNER: Final = (
    f"disco_magic {__version__}: cells run on all workers; %%local runs one here, %disco says what there is"
)


class DiscoShell(ZMQInteractiveShell):
    """IPython's kernel shell with `run_on_workers`, which plain cells call."""

    async def run_on_workers(self, body: str, line: str | None = None) -> CellResult | CellHandle | None:
        """Run a cell on the workers, await it, and return the value for ``Out[n]``."""
        front = front_of(self)
        assert front is not None  # noqa: S101 - its transformer wrote the call
        return await front.settings.run_awaited(line, body)


class DiscoKernel(AnsweringKernel):
    """ipykernel's kernel whose plain cells run on the workers."""

    implementation = "disco"
    implementation_version = __version__
    shell_class = Type(DiscoShell)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        shell: Any = self.shell
        shell.extension_manager.load_extension("disco_magic")  # so that %unload_ext finds it
        load(shell).plain.on = True
        self._answered = threading.Event()
        self._answered.set()

    @property
    def banner(self) -> str:  # type: ignore[override]  # as ipykernel does
        """What consoles show when they start."""
        return f"{super().banner}{_BANNER}\n"

    async def execute_request(self, *args: Any) -> None:
        """Like ipykernel's; also notes when the reply has been sent."""
        self._answered.clear()
        try:
            await super().execute_request(*args)
        finally:
            self._answered.set()

    async def do_execute(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Like ipykernel's, but a plain cell's wait for the workers is awaited."""
        self._forget_errors()
        front = front_of(self.shell)
        if front is None:  # %unload_ext
            return await super().do_execute(*args, **kwargs)
        with front.plain.executing():
            return await super().do_execute(*args, **kwargs)

    def _forget_errors(self) -> None:
        """Forget the last error, and a display that it has ended: else the next cell is told to have it.

        By itself ipykernel 7.4 does so only before cells that are not awaited.
        """
        shell: Any = self.shell
        shell._last_traceback, shell._last_traceback_during_displayhook = None, False  # noqa: SLF001 - see above
        shell.displayhook.msg = None

    def do_shutdown(self, restart: bool) -> dict[str, Any]:  # type: ignore[override]  # noqa: FBT001 - ipykernel's own
        """End the workers, even busy ones; called in the thread of the control channel."""
        front = front_of(self.shell)
        if front is not None:
            (front.sessions.close if restart else front.sessions.end_with_kernel)()
            self._answered.wait(LAST_REPLY_S)  # the cell that this ended still has to send its reply
        return super().do_shutdown(restart)

    @contextmanager
    def _cancel_on_sigint(self, future: asyncio.Future[Any]) -> Iterator[None]:
        """Let the stop button cancel an awaiting local cell at once.

        With ipykernel 7.4 alone this takes effect only when the event loop wakes up, which may be a minute
        later in ``await asyncio.sleep(60)``. The handler may run while the loop waits, so it wakes it.
        """
        loop = asyncio.get_running_loop()
        with sigint_to(lambda: loop.call_soon_threadsafe(future.cancel)), ticking():
            yield


class DiscoKernelApp(IPKernelApp):
    """The application that ``python -m disco_magic.notebook.kernel -f FILE --workers 8`` starts."""

    name = "disco-kernel"
    description = "A kernel whose cells run on all workers; the commands install and uninstall take -h."
    subcommands = Dict()
    kernel_class = Type(DiscoKernel, klass=IPythonKernel)
    classes = [*IPKernelApp.classes, DiscoMagics]  # noqa: RUF012 - traitlets' form
    aliases = Dict(
        {**kernel_aliases, **{name: f"DiscoMagics.{name}" for name in (*of.SESSION, "output", "timeout")}}
    )

    def start(self) -> None:
        """Like ipykernel's, but a KeyboardInterrupt that escapes from a user's task does not end the kernel.

        asyncio raises it out of the loop when no cell of the front end is being executed.
        """
        loop = IOLoop.current()
        run = loop.start

        def run_on() -> None:
            while True:
                try:
                    return run()
                except KeyboardInterrupt:
                    self.log.warning("a task that waited for workers was interrupted")

        loop.start = run_on  # type: ignore[method-assign]
        super().start()


def main() -> None:
    """Start the kernel, or ``install`` or ``uninstall`` it."""
    if sys.argv[1:2] in (["install"], ["uninstall"]):
        from disco_magic.notebook.kernelspec import main as manage

        sys.exit(manage(sys.argv[1:]))
    DiscoKernelApp.launch_instance()


if __name__ == "__main__":
    # Import it under its real name, because `__main__` becomes the user's module.
    from disco_magic.notebook.kernel import main as main_of_module

    main_of_module()
