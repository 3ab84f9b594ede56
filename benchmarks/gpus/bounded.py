"""A process with a deadline, of which nobody waits for more than a moment longer."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[2]
# A killed process that is in the GPU's driver ends when that lets it go: perhaps never.
GRACE_S = 5.0
# A process that listens to this writes where its threads are, for which it has so long; others end.
ASK = signal.SIGUSR1
ANSWER_S = 1.0


def run(
    command: Sequence[str], deadline_s: float, variables: Mapping[str, str], *, grace_s: float = GRACE_S
) -> tuple[int | None, str]:
    """Run `command` in the root of the checkout, with `variables` added to the environment.

    What it has started and left behind is killed when it ends.

    Args:
        command: the words of it.
        deadline_s: so many seconds later it is asked where it is, and killed with all that it has started.
        variables: `PYTHONPATH` gets the checkout in front.
        grace_s: so long it is waited for after that.

    Returns:
        Its exit status, None if it was killed; and what it and its children have written so far.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    # Not a pipe: a child that outlives it would hold that open.
    with TemporaryDirectory(prefix="disco-gpu-", ignore_cleanup_errors=True) as folder:
        log = Path(folder, "log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": path} | dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        status: int | None = None
        try:
            status = process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            process.send_signal(ASK)
            with suppress(subprocess.TimeoutExpired):
                process.wait(ANSWER_S)
        finally:
            # Also after a Ctrl-C, which it does not hear of. What it has left behind may compute on the GPU.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if status is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(grace_s)
        return status, log.read_text(encoding="utf-8", errors="replace")
