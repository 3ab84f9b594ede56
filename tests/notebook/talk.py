"""Answers the questions that a kernel's workers ask, each worker's from a script of its own."""

from __future__ import annotations

import re

from tests.kernels import PATIENCE_S

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def plain(text):
    """`text` without colours."""
    return _COLOUR.sub("", text)


def shown(ran):
    """What a cell printed, without colours."""
    return plain(ran.text())


def of_worker(ran, worker):
    """The lines of one worker, without its prefix."""
    return [line[4:] for line in shown(ran).splitlines() if line.startswith(f"[{worker}] ")]


def asked(kernel):
    """The next prompt, which is still to be answered: whose it is, and what it says."""
    prompt = kernel.client.get_stdin_msg(timeout=PATIENCE_S)["content"]["prompt"]
    label, _, text = prompt.partition("] ")
    return int(label[1:]) if text else None, text or prompt


def answer(kernel, scripts):
    """Answer until all `scripts` (worker -> its answers in order) are at their end; the prompts in order."""
    left = {worker: list(answers) for worker, answers in scripts.items()}
    prompts = []
    while any(left.values()):
        worker, text = asked(kernel)
        prompts.append((worker, text))
        assert left.get(worker), f"nothing is left to answer to {prompts[-1]}; {left}"
        kernel.client.input(left[worker].pop(0))
    return prompts


def talk(kernel, code, scripts):
    """Run a cell and answer what it asks; what it gave, and the prompts."""
    cell = kernel.send(code)
    prompts = answer(kernel, scripts)
    return kernel.finish(cell), prompts


def works(kernel):
    """Whether cells, prompts and collectives work as ever, and nothing is traced on any worker."""
    ran, _ = talk(
        kernel,
        "%%disco\nimport sys\ntraced = sys.gettrace()\nbreakpoint()\n[traced, allgather(worker_id).tolist()]",
        {worker: ["c"] for worker in range(4)},
    )
    return ran.value == "[0-3] [None, [0, 1, 2, 3]]"
