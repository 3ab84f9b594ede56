"""The worker machine on a bench: fed, executed and finished by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from disco_magic.core.interpreter import EXECUTE, SKIP, Interpreter
from disco_magic.core.registers import RegisterFile
from disco_magic.errors import Failure


@dataclass
class Done:
    value: object
    shown: object = None
    digest: bytes = b""
    elapsed_s: float = 0.5
    caught: str = ""


@dataclass
class Cell:
    label: str = "Cell In[7]"


class Bench:
    """An interpreter, and the few lines a driver needs."""

    def __init__(self, worker=1, **names):
        self.registers = RegisterFile(names)
        self.inherited = []  # by the commands that were skipped
        self.machine = Interpreter(worker, self.registers, copy=self.copy, run=self.run)

    def copy(self, value):
        return ("copy of", value)

    def run(self, command):
        return Done(f"value of {command.cell.label}")

    def drive(self, command):
        """Feed, execute, finish; what the driver would send."""
        step = self.machine.feed(command)
        if step is EXECUTE:
            event = self.machine.finish(command, self.machine.function(*self.machine.arguments))
            return [event] if event is not None else []
        if step is SKIP:
            events, origin = self.machine.inherited()
            self.inherited.append(origin)
            return list(events)
        return [] if step is None else [step]

    def fail(self, command, error=None):
        """Feed, and let the execution fail."""
        assert self.machine.feed(command) is EXECUTE
        failure = Failure(1, command.seq, "call f", error or ValueError("boom"), "text")
        return self.machine.fail(command, failure)


@pytest.fixture
def bench():
    return Bench()
