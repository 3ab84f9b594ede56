"""What a worker has to hold and to say, in the plainest words: dictionaries, no interpreter.

A failure is known by its key: (worker, number of the command it began in, type of its exception).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from tests.simulation.user_code import combine, result


class Violated(AssertionError):
    """An invariant does not hold."""


def require(holds, text, *facts):
    if not holds:
        raise Violated(text + "".join(f"\n  {fact!r}" for fact in facts))


def key_of(failure):
    return (failure.worker, failure.seq, type(failure.exception).__name__)


def cause_of(failure):
    """The key of what a failure only follows from, however indirectly; None if it stands for itself."""
    origin, before = failure, failure
    while before is not None:  # a PlaneAborted stands for itself if a worker has finished without the call
        origin = before
        before = origin.exception.failure if type(origin.exception).__name__ == "PlaneAborted" else None
    return None if origin is failure else key_of(origin)


@dataclass(frozen=True)
class Ref:
    """A register operand."""

    id: int


@dataclass
class Order:
    """A command as the world meant it; `function` and `args` hold a `Ref` or the value itself."""

    kind: str
    seq: int = 0
    workers: tuple[int, ...] = ()
    kills: tuple[int, ...] = ()
    dest: int | None = None
    function: object = None
    args: tuple = ()
    register: int = 0
    name: str = ""
    only: tuple[int, ...] | None = None
    value: object = None
    text: object = None
    plans: dict | None = None

    def __str__(self):
        into = "" if self.dest is None else f" -> #{self.dest}"
        kills = f" kills {self.kills}" if self.kills else ""
        return f"({self.seq}) {self.kind}{into}{kills}"


@dataclass
class Origin:
    """Why a register has no value; one object for all registers that inherited it."""

    key: tuple
    reported: bool


class WorkerReference:
    """One worker.

    Attributes:
        stream: orders it was sent and has not taken.
        values, poisons, names: what its registers hold.
        said: events the controller has to hear from it, in order.
        skip: orders up to here fail instead of beginning.
        withdrawn, begun: cells that do, each alone; the last order but an ordinary call that began.
        order: what it executes; `claimed` from when an interrupt may end it, `marked` from when one has.
        lost: it is gone.
    """

    def __init__(self, worker):
        self.worker = worker
        self.stream = deque()
        self.values, self.poisons, self.names = {}, {}, {}
        self.said = deque()
        self.skip = 0
        self.withdrawn, self.begun = set(), 0
        self.order = None
        self.claimed = self.marked = self.resolved = self.lost = self.inherited = False
        self.last = 0

    def take(self, seq):
        """The next order."""
        order = self.stream.popleft()
        require(order.seq == seq, f"worker {self.worker} takes {seq} instead of {order}")
        require(order.seq > self.last, f"worker {self.worker}: {order} after {self.last}")
        require(self.order is None, f"worker {self.worker} takes {order} while it executes {self.order}")
        self.last, self.order = seq, order
        self.claimed = self.marked = self.resolved = self.inherited = False
        return order

    def resolve(self):
        """Its kills, then what it reads: whether it is to be executed. If not, it is over."""
        self.resolved = True
        self._kill_first()
        if getattr(self, "_" + self.order.kind)(self.order):
            return True
        self.order, self.claimed, self.marked = None, False, False
        return False

    def _kill_first(self):
        for register in self.order.kills:
            self.values.pop(register, None)
            self.poisons.pop(register, None)

    def _call(self, order):
        for operand in (order.function, *order.args):
            if isinstance(operand, Ref) and operand.id not in self.values:
                self._inherit(order, operand.id, order.dest)
                return False
        return True

    def _store(self, order):
        if order.only is not None and self.worker not in order.only:
            self._set(order.dest, None)
        elif order.only == (self.worker,):
            self._set(order.dest, order.value)
        else:
            return True
        return False

    def _fetch(self, order):
        origin = self.poisons.get(order.register)
        if origin is not None:
            self.say("Answer", order, failure=origin.key)
        elif order.register not in self.values:
            self.say("Answer", order, failure=self._key(order, "UnknownName"))
        else:
            return True
        return False

    def _load(self, order):
        if order.name in self.names:
            self._set(order.dest, self.names[order.name])
        else:
            self._poison(order.dest, Origin(self._key(order, "UnknownName"), reported=False))
        return False

    def _bind(self, order):
        if order.register in self.values:
            self.names[order.name] = self.values[order.register]
        else:
            self._inherit(order, order.register, None)
            if order.name not in self.names:
                self.say("NotBound", order, names=(order.name,))
        return False

    def _unbind(self, order):
        self.names.pop(order.name, None)
        return False

    def _cell(self, order):
        return True

    def _sync(self, order):
        self.say("Reached", order)
        return False

    def _kill(self, order):
        return False

    def _stop(self, order):
        self.values, self.poisons, self.names = {}, {}, {}
        return False

    # --- executing -----------------------------------------------------------------------------------

    def interrupt(self, through):
        """Whether this ends something that is being executed."""
        self.skip = max(self.skip, through)
        if self.order is not None and self.claimed and self.order.seq <= through:
            self.marked = True
        return self.marked

    def withdraw(self, seq):
        """Whether the cell had not begun; otherwise as `interrupt`, and whether that ends it."""
        unbegun = self.begun < seq
        if unbegun:
            self.withdrawn.add(seq)
        at_it = self.order is not None and self.claimed and self.order.seq == seq
        return unbegun, (not unbegun or at_it) and self.interrupt(seq)

    def looks(self, seq, *, rare):
        """Whether an order is left out, now that its thread looks, which may have been given up."""
        if rare:
            self.begun = max(self.begun, seq)
        return seq <= self.skip or (rare and seq in self.withdrawn)

    def expected(self, results):
        """What user code returns now, or the name of what it raises; its effect on the names happens here."""
        order, w = self.order, self.worker
        if order.kind == "store":
            return order.value, None
        if order.kind == "fetch":
            return self.values[order.register], None
        if order.kind == "cell":
            return self._expected_of_cell(order.text, result_of_note(w, order.seq, results))
        args = [self.values[arg.id] if isinstance(arg, Ref) else arg for arg in order.args]
        function = order.function
        try:
            return result(self._at(function), w, order.seq, results, args), None
        except TypeError:
            return None, "TypeError"

    def _at(self, operand):
        return self.values[operand.id] if isinstance(operand, Ref) else operand

    def _expected_of_cell(self, text, value):
        if text.binds is not None:
            self.names[text.binds] = value
        if text.drops is not None:
            self.names.pop(text.drops, None)
        if text.fails:
            return None, "Boom"
        return (value if text.has_value else None), None

    def end(self, value, error):
        """The order that is executed ends; an interrupt that came meanwhile has the last word."""
        order = self.order
        if not self.resolved:  # its thread was given up that early
            self._kill_first()
        if self.marked:
            error = "WorkerInterrupt"
        key = None if error is None else self._key(order, error)
        self.order, self.claimed, self.marked = None, False, False
        if order.kind == "fetch":
            self.say("Answer", order, value=value if key is None else None, failure=key)
        elif order.kind == "cell":
            if key is None:
                self._set(order.dest, value)
            self.say("CellDone", order, failure=key, names=tuple(self.names))
        elif key is None:
            self._set(order.dest, value)
        else:
            self.values.pop(order.dest, None)
            self._poison(order.dest, Origin(key, reported=True))
            self.say("Failed", order, failure=key)
        return key

    # --- the registers -------------------------------------------------------------------------------

    def say(self, kind, order, *, value=None, failure=None, names=()):
        self.said.append((kind, order.seq, value, failure, names))

    def _key(self, order, error):
        return (self.worker, order.seq, error)

    def _set(self, register, value):
        self.poisons.pop(register, None)
        self.values[register] = value

    def _poison(self, register, origin):
        self.values.pop(register, None)
        self.poisons.setdefault(register, origin)

    def _inherit(self, order, register, dest):
        self.inherited = True
        origin = self.poisons.get(register) or Origin(self._key(order, "UnknownName"), reported=False)
        if not origin.reported:
            origin.reported = True
            self.say("Failed", order, failure=origin.key)
        if dest is not None:
            self._poison(dest, origin)

    def check(self, registers):
        """Compare with the real register file, which nobody else writes."""
        if self.lost:
            return
        if registers.values != self.values:
            self._differ("values", registers.values, self.values)
        if registers.poisons or self.poisons:
            held = {r: (key_of(p.failure), p.reported) for r, p in registers.poisons.items()}
            should = {r: (origin.key, origin.reported) for r, origin in self.poisons.items()}
            if held != should:
                self._differ("poisons", held, should)
        names = [(name, value) for name, value in registers.names.items() if name[0] != "_"]
        if names != list(self.names.items()):
            self._differ("names", names, self.names)

    def _differ(self, what, *both):
        require(False, f"worker {self.worker} after ({self.last}): {what} (are, should be)", *both)


def result_of_note(worker, seq, results):
    return result(combine, worker, seq, results, [])


def facts_of(event):
    """A real event as `WorkerReference.said` has it."""
    failure = getattr(event, "failure", None)
    value = getattr(event, "value", None)
    names = (event.name,) if hasattr(event, "name") else getattr(event, "names", ())
    return (type(event).__name__, event.seq, value, failure and key_of(failure), names)
