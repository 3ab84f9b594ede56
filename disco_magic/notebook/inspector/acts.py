"""Actions of an inspector on a register. Nothing here waits for a worker.

The calling thread copies values, even from a busy worker. Changes of registers are sent as commands, which
take effect when the workers execute them.
"""

from __future__ import annotations

import builtins
import keyword
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.functions.context import BEHIND, VERBS
from disco_magic.functions.copies import copy_of, is_shared
from disco_magic.notebook.inspector.holders import reference_of
from disco_magic.phrases import ranges
from disco_magic.values.elements import elements_of
from disco_magic.values.kinds import is_gpu_array
from disco_magic.values.sights import current_sight

if TYPE_CHECKING:
    from disco_magic.notebook.front import Front
    from disco_magic.session.dref import DRef
    from disco_magic.session.session import Session


_NEVER = object()


class Acts:
    """Actions on the registers of a notebook's session; each returns a sentence that says what was done."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._bound: WeakValueDictionary[str, Any] = WeakValueDictionary()  # only the notebook keeps copies

    def to_notebook(self, session: Session, label: str, worker: int, name: str) -> str:
        """Bind the notebook variable `name` to a copy of the value on `worker`.

        Raises:
            UsageMistake: `name` is no variable name, a name of Python's own, or an existing variable that was
                not made here.
        """
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageMistake(f"{name!r} is not a variable name")
        if hasattr(builtins, name):
            raise UsageMistake(f"{name!r} is a name of Python's own; write another one")
        existing = self._front.shell.user_ns
        if name in existing and existing[name] is not self._bound.get(name, _NEVER):
            raise UsageMistake(f"the notebook has a variable {name!r} already; write another name")
        value = copied(session, label, worker)
        self._front.bind({name: value})
        with suppress(TypeError):  # no weak references to numbers and lists: the next copy needs a new name
            self._bound[name] = value
        return f"notebook variable {name} is a copy of {label} on {ranges((worker,))}"

    def to_worker_0(self, session: Session, label: str, worker: int) -> str:
        """Put a copy of the value on `worker` into the same register of worker 0."""
        _ready(session, label)
        value, reference = copied(session, label, worker), self._reference(session, label)
        reference.set(0, value)
        if not label.startswith("#"):
            session[label] = reference
        return f"{label} on [0] becomes a copy of {label} on {ranges((worker,))}"

    def broadcast(self, session: Session, label: str, worker: int) -> str:
        """Put a copy of the value on `worker` into the same register of every worker."""
        value = copied(session, label, worker)
        session.keep_pace(0.0)
        if label.startswith("#"):
            reference = self._reference(session, label)
            for each in range(session.num_workers):
                reference.set(each, value)
        else:
            _known(session, label)
            session.put(label, value)
        return f"{label} becomes a copy of {label} on {ranges((worker,))} everywhere"

    def rename(self, session: Session, label: str, name: str) -> str:
        """Give a register another name; a numbered one gets a name in addition to its number."""
        if name in BEHIND or name in VERBS:
            raise UsageMistake(f"cells find {name!r} without any register; write another name")
        if name in session.names():
            raise UsageMistake(f"there is a register {name!r} already; write another name")
        _ready(session, label)
        session[name] = self._reference(session, label)
        if label.startswith("#"):
            return f"{label} is named {name}"
        del session[label]
        return f"{label} is called {name} now"

    def delete(self, session: Session, label: str) -> str:
        """Unbind a name on every worker."""
        if label.startswith("#"):
            raise UsageMistake(
                f"{label} lives as long as something in the notebook refers to it; delete that"
            )
        _known(session, label)
        session.keep_pace(0.0)
        del session[label]
        return f"{label} is deleted on every worker"

    def interrupt(self, session: Session, workers: tuple[int, ...] | None) -> str:
        """Stop what `workers` execute; None: all of them."""
        session.interrupt(workers)
        return f"stopped {ranges(workers or range(session.num_workers))}"

    @staticmethod
    def _reference(session: Session, label: str) -> DRef:
        if label.startswith("#"):
            return reference_of(session, label)
        _known(session, label)
        return session[label]


def copied(session: Session, label: str, worker: int) -> Any:
    """A copy of the value of a register on `worker`, made at once, even while the worker is busy.

    For an array on a GPU it is a NumPy array, as from `DRef.get`.

    Raises:
        UsageMistake: the register has no value there.
        NoPicture: the value is on a GPU, and the worker still computes there.
    """
    (found,) = session.examine(label, _boxed, workers=(worker,))
    if found is None:
        raise UsageMistake(f"{label} has no value on {ranges((worker,))}; choose another worker")
    return found[0]


def _boxed(value: Any) -> tuple[Any]:
    """A copy in a tuple, to tell a None from the None that `examine` returns where there is no value."""
    if is_gpu_array(type(value)):
        return (elements_of(value)[()],)
    sight = current_sight()
    if sight is not None and type(value) is not np.ndarray and not is_shared(value):
        sight.check_all()  # there may be arrays on the GPU in it
    return (copy_of(value),)


def _ready(session: Session, label: str) -> None:
    """Refuse actions that would wait, or fail on a worker, which the user's next cell would raise."""
    session.keep_pace(0.0)
    held = session.examine(label, lambda _: True)
    lacking = tuple(worker for worker, each in enumerate(held) if each is None)
    if lacking:
        raise UsageMistake(f"{label} has no value on {ranges(lacking)}; To all workers gives it one")


def _known(session: Session, label: str) -> None:
    """Refuse names that only a running cell has bound: asking for them would wait for that cell."""
    if label not in session.names():
        raise UsageMistake(f"{label} was bound by a cell that still runs, or is gone; try again after it")
