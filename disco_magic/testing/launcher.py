"""`check_launcher`: what every implementation of `disco_magic.core.interfaces.Launcher` has to do."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from disco_magic.core.messages import Call, CellDone, Failed, Reached, Run, Sync
from disco_magic.core.registers import ABSENT
from disco_magic.errors import WorkerInterrupt
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.testing.crew import DEADLINE_S, Crew
from disco_magic.testing.doubles import Gate
from disco_magic.testing.stage import expect, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from disco_magic.core.interfaces import Launcher

    Make = Callable[[int], Launcher]
    Check = Callable[[Crew], None]


@contextmanager
def _busy(crew: Crew) -> Iterator[None]:
    """In the ``with`` block, all workers execute a call, into register 2, that does not end."""
    gate = Gate()
    crew.send(lambda seq: Call(seq, 2, gate, ()))
    try:
        gate.arrived(crew.size)
        yield
    finally:
        gate.open()


def every_worker_answers(crew: Crew) -> None:
    """There is a channel per worker, and each worker reports that it reached the marker."""
    expect(len(crew.channels) == crew.size, f"{len(crew.channels)} channels for {crew.size} workers")
    seq = crew.send(Sync)
    expected = [Reached(worker, seq) for worker in range(crew.size)]
    expect(crew.one_each() == expected, "not every worker reached the marker")


def commands_are_executed_in_order(crew: Crew) -> None:
    """A register holds the result of the last of many commands."""
    crew.send(lambda seq: Call(seq, 1, int, ()))
    for _ in range(200):
        crew.send(lambda seq: Call(seq, 1, max, (1, seq), (0,)))
    last = crew.seq
    expect(crew.ask(1) == [last] * crew.size, "a command was lost or executed out of order")


def workers_know_who_they_are(crew: Crew) -> None:
    """Worker i is number i of the size it was started with."""
    crew.run("(worker_id, num_workers)")
    expect(crew.ask(1) == [(w, crew.size) for w in range(crew.size)], f"got {crew.ask(1)}")


def a_failure_is_reported_at_once_and_the_worker_goes_on(crew: Crew) -> None:
    """Failed comes at once, without a query; the next command is executed."""
    seq = crew.send(lambda seq: Call(seq, 1, int, ("no number",)))
    for event in crew.one_each():
        expect(isinstance(event, Failed) and event.seq == seq, f"expected Failed of {seq}, got {event}")
        expect(isinstance(event.failure.exception, ValueError), f"another error came: {event.failure}")
    crew.send(lambda seq: Call(seq, 2, int, ("5",)))
    expect(crew.ask(2) == [5] * crew.size, "the worker did not go on after a failure")


def an_interrupt_ends_what_runs_and_skips_what_was_sent(crew: Crew) -> None:
    """An interrupt ends an endless loop and skips commands up to the number; later ones are executed."""
    endless = compile_cell("n = 0\nwhile True:\n    n += 1\n")
    crew.send(lambda seq: Run(seq, 1, endless))
    through = crew.send(lambda seq: Call(seq, 2, int, ()))
    crew.launcher.interrupt(through, range(crew.size))
    crew.send(lambda seq: Call(seq, 3, int, ("7",)))
    for event in crew.events(2 * crew.size):
        expect(isinstance(event, CellDone | Failed), f"got {event}")
        failure: Any = event.failure  # type: ignore[union-attr]
        expect(isinstance(failure.exception, WorkerInterrupt), f"expected WorkerInterrupt, got {failure}")
    expect(crew.ask(3) == [7] * crew.size, "a command sent after the interrupt was not executed")


def what_was_sent_can_be_skipped(crew: Crew) -> None:
    """The running command goes on; those sent after it, up to the given number, fail in their turn."""
    gate = Gate()
    first = crew.send(lambda seq: Call(seq, 1, gate, ()))
    gate.arrived(crew.size)
    seq = crew.send(lambda seq: Call(seq, 2, int, ("2",)))
    crew.launcher.skip(seq, range(crew.size))
    crew.send(lambda seq: Call(seq, 3, int, ("7",)))
    gate.open()
    for event in crew.one_each():
        failure: Any = event.failure if isinstance(event, Failed) and event.seq == seq else None
        skipped = failure is not None and isinstance(failure.exception, WorkerInterrupt)
        expect(skipped, f"expected that {seq} is skipped and {first} goes on, got {event}")
    expect(crew.ask(1) == [None] * crew.size, "what was executed did not go on")
    expect(crew.ask(3) == [7] * crew.size, "what was sent after that was not executed")


def a_withdrawn_cell_ends_alone(crew: Crew) -> None:
    """A withdrawn cell fails in its turn if it has not begun, else at once; earlier commands go on."""
    gate, endless = Gate(), compile_cell("n = 0\nwhile True:\n    n += 1\n")
    crew.send(lambda seq: Call(seq, 1, gate, ()))
    gate.arrived(crew.size)
    seq = crew.send(lambda seq: Run(seq, 2, endless))
    unbegun = crew.launcher.withdraw(seq, range(crew.size))
    expect(list(unbegun) == list(range(crew.size)), f"{unbegun} had not begun, expected all workers")
    gate.open()
    _ended_by_interrupt(crew, seq)
    expect(crew.ask(1) == [None] * crew.size, "what was sent before a withdrawn cell did not go on")
    seq = crew.send(lambda seq: Run(seq, 2, endless))
    crew.launcher.withdraw(seq, range(crew.size))
    _ended_by_interrupt(crew, seq)


def _ended_by_interrupt(crew: Crew, seq: int) -> None:
    for event in crew.one_each():
        failure = event.failure if isinstance(event, CellDone) and event.seq == seq else None
        ended = failure is not None and isinstance(failure.exception, WorkerInterrupt)
        expect(ended, f"expected that the withdrawn cell {seq} ends with WorkerInterrupt, got {event}")


def an_interrupt_of_an_idle_worker_does_nothing(crew: Crew) -> None:
    """The interrupt is not kept for the next command."""
    crew.launcher.interrupt(crew.seq, range(crew.size))
    crew.send(lambda seq: Call(seq, 1, int, ("3",)))
    expect(crew.ask(1) == [3] * crew.size, "an interrupt struck a command that came after it")


def positions_say_what_every_worker_does(crew: Crew) -> None:
    """One position per worker, also while nothing runs."""
    positions = crew.launcher.positions()
    found = [position.worker for position in positions]
    expect(found == list(range(crew.size)), f"expected a position of each worker, in order, got {positions}")


def records_say_what_every_worker_did(crew: Crew) -> None:
    """A cell that has ended is in the record of each worker, with its times."""
    crew.run("1 + 1")
    records = crew.launcher.records()
    cells = [[span for span in record.spans if span.kind == "cell"] for record in records]
    expect([len(spans) for spans in cells] == [1] * crew.size, f"expected a cell per worker, got {cells}")
    for worker, (record, (cell,)) in enumerate(zip(records, cells, strict=True)):
        expect(cell.worker == worker, f"worker {worker} has a span of another worker: {cell}")
        inside = record.began_s <= cell.start_s <= cell.end_s <= record.until_s
        expect(inside, f"a span outside of the record's time: {cell}, {record}")


def values_are_examined_where_they_are(crew: Crew) -> None:
    """Values can be examined by name and by number, on one worker and on several, even while all are busy."""
    crew.run("x = 2.0 + worker_id")
    crew.send(lambda seq: Call(seq, 7, int, ("5",)))
    crew.ask(7)
    with _busy(crew):
        examine = crew.launcher.examine
        alone = [(worker,) for worker in range(crew.size)]
        found = examine("x", pow, (2,), alone)
        expect(found == [(2.0 + w) ** 2 for w in range(crew.size)], f"x squared on each worker, got {found}")
        found = examine("#7", pow, (2,), alone)
        expect(found == [25] * crew.size, f"the square of register 7 on each worker, got {found}")
        last = crew.size - 1
        found = examine("x", divmod, (), [(last, 0)])
        expect(found == [divmod(2.0 + last, 2.0)], f"x of the last worker and of the first, got {found}")
        for label in ("y", "#2", "#99", "#no", "_x", ""):
            found = examine(label, pow, (2,), alone)
            expect(found == [None] * crew.size, f"nobody has {label!r}, got {found}")


def names_are_examined_where_they_are(crew: Crew) -> None:
    """Each worker's names, bound ones and others that cells see, can be examined even while all are busy."""
    crew.run("x = 2.0 + worker_id\n_y = 1\nglobals()[5] = 'no name'")
    with _busy(crew):
        examine = crew.launcher.examine_names
        found = examine(_value_and_rank, ("x",), range(crew.size))
        expect(found == [(2.0 + w, w) for w in range(crew.size)], f"x and the worker's id, got {found}")
        (names,) = examine(_names, (), [crew.size - 1])
        expect({"x", "_y"} <= names[0] and "worker" in names[1], f"the names of the last worker, got {names}")
        expect("worker" not in names[0], "what lies behind the names was handed over as bound")
        expect({type(name) for each in names for name in each} == {str}, f"names are text, got {names}")
    expect(crew.run("x")[0].failure is None, "a function emptied the worker's own names")


def a_worker_at_rest_has_done_and_told_everything(crew: Crew) -> None:
    """`has_rested` is false for a worker with unfinished commands; if true, its values are the latest."""
    rested = crew.launcher.has_rested
    for count in range(200):
        seq = crew.send(lambda seq: Call(seq, 3, int, (str(seq),)))
        if rested(count % crew.size, seq):
            seen = crew.launcher.glance(count % crew.size, 3)
            expect(seen is ABSENT or seen == seq, f"a worker at rest after command {seq} holds {seen}")
    crew.ask(3)
    with _busy(crew):
        idle = [*filter(lambda worker: rested(worker, crew.seq), range(crew.size))]
        expect(not idle, f"workers {idle} are said to have done what they still execute")
    crew.send(lambda seq: Call(seq, 2, list, ()))
    crew.ask(2)
    shared = [crew.launcher.glance(worker, 2) for worker in range(crew.size)]
    expect(
        all(value is ABSENT for value in shared), f"a list, which can be changed, was handed out: {shared}"
    )


def _value_and_rank(bound: dict[str, Any], behind: dict[str, Any], name: str) -> tuple[Any, int]:
    found = bound[name], behind["worker_id"]
    bound.clear()
    return found


def _names(bound: dict[str, Any], behind: dict[str, Any]) -> tuple[set[str], set[str]]:
    return set(bound), set(behind)


def stopping_twice_is_no_error(crew: Crew) -> None:
    """A second stop does nothing, also if an endless loop was running."""
    endless = compile_cell("n = 0\nwhile True:\n    n += 1\n")
    crew.send(lambda seq: Run(seq, 1, endless))
    crew.stop(timeout_s=0.0)
    crew.launcher.stop(DEADLINE_S, crew.seq)


LAUNCHER_CHECKS: tuple[Check, ...] = (
    every_worker_answers,
    commands_are_executed_in_order,
    workers_know_who_they_are,
    a_failure_is_reported_at_once_and_the_worker_goes_on,
    an_interrupt_ends_what_runs_and_skips_what_was_sent,
    what_was_sent_can_be_skipped,
    a_withdrawn_cell_ends_alone,
    an_interrupt_of_an_idle_worker_does_nothing,
    positions_say_what_every_worker_does,
    records_say_what_every_worker_did,
    values_are_examined_where_they_are,
    names_are_examined_where_they_are,
    a_worker_at_rest_has_done_and_told_everything,
    stopping_twice_is_no_error,
)


def check_launcher(
    make: Make, *, sizes: Iterable[int] = (1, 2, 3), checks: Iterable[Check] = LAUNCHER_CHECKS
) -> None:
    """Run a launcher through all checks; raise AssertionError at the first one that fails.

    Args:
        make: returns a new launcher, not started, for that many workers.
        sizes: numbers of workers to try.
        checks: the checks; each is called with a `Crew` that has just started.
    """
    for check in checks:
        for size in sizes:
            threads = threading.active_count()
            crew = Crew(make(size), size)
            try:
                with told(check, size):
                    check(crew)
            finally:
                if check is not stopping_twice_is_no_error:
                    crew.stop()
            expect(threading.active_count() <= threads, f"threads are left: {threading.enumerate()}")
