"""What simulated users send: functions and cells whose results tell who made them of what; plane calls."""

from __future__ import annotations

from dataclasses import dataclass

from disco_magic.functions.execution.cells import compile_cell

PRIME = (1 << 61) - 1


class Boom(Exception):
    """What simulated user code raises."""


class Scene:
    """Which command is being executed, by whom, and what its plane calls gave: set before the call."""

    worker = 0
    seq = 0
    results = ()
    boom = False


SCENE = Scene()


def fold(start, parts):
    """A number that depends on every part and their order."""
    for part in parts:
        start = (start * 1_000_003 + number(part) + 1) % PRIME
    return start


def number(value):
    if value is None:
        return 7
    if isinstance(value, Tool):
        return value.serial
    return fold(11, value) if isinstance(value, list) else int(value)


def result(function, worker, seq, results, args):
    """What `function` returns there; TypeError if it cannot be called. The reference asks this as well."""
    made = fold(worker * 7919 + seq, [*results, *args])
    if function is combine:
        return made
    if function is make:
        return Tool(made)
    if isinstance(function, Tool):
        return fold(function.serial, [made])
    raise TypeError(f"{type(function).__name__} cannot be called")


def combine(*args, **named):
    return result(combine, SCENE.worker, SCENE.seq, SCENE.results, [*args, *named.values()])


def make(*args, **named):
    return result(make, SCENE.worker, SCENE.seq, SCENE.results, [*args, *named.values()])


@dataclass(frozen=True)
class Tool:
    """A function that lives in a register."""

    serial: int

    def __call__(self, *args, **named):
        return result(self, SCENE.worker, SCENE.seq, SCENE.results, [*args, *named.values()])


def note():
    """What cells call: their value."""
    return combine()


def fail():
    """What some cells call after they have bound a name."""
    raise Boom("in a cell")


EXTRAS = {"note": note, "fail": fail}
NAMES = ("a", "b", "c")


@dataclass(frozen=True)
class CellText:
    """A cell, and what it does to the namespace."""

    cell: object
    binds: str | None = None
    drops: str | None = None
    fails: bool = False
    has_value: bool = True


def _texts():
    for name in NAMES:
        yield CellText(compile_cell(f"{name} = note()\n{name}"), binds=name)
        yield CellText(compile_cell(f"globals().pop({name!r}, None)\nnote()"), drops=name)
        yield CellText(compile_cell(f"{name} = note()\nfail()"), binds=name, fails=True)
    yield CellText(compile_cell("note();"), has_value=False)


CELLS = tuple(_texts())


# --- plane calls -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Meet:
    """A collective of `members`; `op` is "sum", "max" or "barrier"."""

    members: tuple[int, ...]
    op: str


@dataclass(frozen=True)
class Send:
    """A message; who `waits` goes on when it is asked for."""

    to: int
    waits: bool = False


@dataclass(frozen=True)
class Recv:
    source: int


@dataclass(frozen=True)
class Probe:
    """A look for who of `sources` sends first, and the receipt of that message."""

    sources: tuple[int, ...]


def script(rng, workers):
    """Worker -> the plane calls its user code makes. Most scripts fit together, some do not."""
    plans = {worker: [] for worker in workers}
    waits = rng.random() < 0.3
    for _ in range(rng.randint(1, 3)):
        kind = rng.random()
        if kind < 0.55 or len(workers) == 1:
            members = workers if rng.random() < 0.6 else _some(rng, workers)
            op = rng.choice(("sum", "max", "barrier"))
            for member in members:
                plans[member].append(Meet(members, op))
        elif kind < 0.65:
            _to_one(rng, workers, plans, waits)
        elif kind < 0.85:
            sender, receiver = rng.sample(workers, 2)
            plans[sender].append(Send(receiver, waits))
            plans[receiver].append(Recv(sender))
        else:  # everybody to the next one
            for place, worker in enumerate(workers):
                plans[worker].append(Send(workers[(place + 1) % len(workers)], waits))
                plans[worker].append(Recv(workers[place - 1]))
    if rng.random() < 0.35:
        _spoil(rng, plans)
    return plans


def _to_one(rng, workers, plans, waits):
    """Several send to one, in any order; it may answer, but may look for one message too many before."""
    receiver, *senders = rng.sample(workers, rng.randint(2, len(workers)))
    answers = rng.random() < 0.3
    sources = tuple(sorted(senders if rng.random() < 0.5 else workers))
    for sender in senders:
        plans[sender].append(Send(receiver, waits))
        plans[receiver].append(Probe(sources))
        if answers:
            plans[sender].append(Recv(receiver))
    if rng.random() < 0.2:
        plans[receiver].append(Probe(workers))
    plans[receiver] += [Send(sender, waits) for sender in senders if answers]


def _some(rng, workers):
    return tuple(sorted(rng.sample(workers, rng.randint(1, len(workers)))))


def _spoil(rng, plans):
    """A mistake of one worker: a call left out, two in the wrong order, another one than the others make."""
    plan = plans[rng.choice(sorted(plans))]
    if not plan:
        return
    place = rng.randrange(len(plan))
    mistake = rng.randrange(3)
    if mistake == 0:
        del plan[place]
    elif mistake == 1:
        plan.append(plan.pop(place))
    elif isinstance(plan[place], Meet):
        plan[place] = Meet(plan[place].members, "prod")
    else:
        plan.insert(place, plan[place])
