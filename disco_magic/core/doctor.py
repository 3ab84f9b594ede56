"""Who is where, since when, and who keeps whom waiting: a picture of all workers at one moment.

Pure: a launcher reports what each worker does (`Position`); this module says what that means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from disco_magic.core.seat import not_received
from disco_magic.core.words import aligned, human_seconds, plural, until_the_end
from disco_magic.phrases import people, people_who, ranges

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_AT_WORK: Final = {"stopping": "being stopped in", "cleaning": "stopped, and cleaning up in"}
State = Literal["idle", "queued", "executing", "asking", "stopping", "cleaning", "waiting", "moving"]

IMPORT: Final = "the import of"
"""Begins `Position.call` of a worker that waits until another one has imported a module."""
LOAD: Final = "the load of"
"""The same of a module that `load_vm_module` loads."""
_HOLDING: Final = (IMPORT, LOAD)
_IN_BODY: Final = ": a module that they share makes a collective while it is {} - put that into a function"
_OR_OWN: Final = ", or start the session with --own-modules"
_NAMING: Final = ("recv from", "send to", "probe of")
"""Begin calls that name the workers themselves."""
HEADER = ("worker", "doing", "where", "for", "commands left")
WORDS = 3  # columns of words, before those of numbers


@dataclass(frozen=True, slots=True)
class Position:
    """What one worker is doing.

    Attributes:
        worker: its id.
        state: ``idle``; ``queued``: has commands and has not begun the next one; ``executing`` user code;
            ``stopping``: was interrupted, and has not ended yet; ``cleaning``: likewise, in an ``except`` or
            ``finally`` of the user's; ``asking`` the user; ``waiting`` for other workers; ``moving`` data,
            or waiting until others have.
        command: the command in words, ``Cell In[7]``.
        site: the line of the user's code, ``Cell In[7], line 4``; empty if it is in none.
        call: what it waits in, ``allreduce(float32 (3,), op=sum)``, or the question, ``input('name? ')``.
        needs: workers that have to come before it can go on.
        seconds: how long it has been waiting, or executing this command; None if that is not known.
        at_most: whether `seconds` is an upper bound: it has been busy so long, perhaps with several commands.
        behind: commands sent to it and not done, including the one it executes.
        seq: number of `command`, which distinguishes commands of the same name; None if it executes none.
        unread: while it waits, what was sent to it in this command and not received yet, in words.
    """

    worker: int
    state: State
    command: str = ""
    site: str = ""
    call: str = ""
    needs: tuple[int, ...] = ()
    seconds: float | None = None
    at_most: bool = False
    behind: int = 0
    seq: int | None = None
    unread: tuple[str, ...] = ()

    @property
    def doing(self) -> str:
        """What it does in words, without where and how long."""
        if self.state == "idle":
            return "idle"
        if self.state == "queued":
            return "about to execute what was sent"
        if self.state == "waiting":
            named = self.call.startswith(_NAMING)
            return f"waiting in {self.call}" + ("" if named else f" for {people(self.needs)}")
        if self.state == "moving":
            return self.call if self.call.startswith("connecting") else f"moving data in {self.call}"
        if self.state == "asking":
            return f"waiting for your answer to {self.call}"
        return f"{_AT_WORK.get(self.state, 'executing')} {self.command}"

    @property
    def duration(self) -> str:
        """``12.3 s``, ``<= 12.3 s``, or nothing."""
        if self.seconds is None:
            return ""
        return f"{'<= ' if self.at_most else ''}{human_seconds(self.seconds)}"

    @property
    def place(self) -> str:
        """`` at Cell In[7], line 4``, or nothing."""
        return f" at {self.site}" if self.site else ""

    def __str__(self) -> str:
        since = f" for {self.duration}" if self.duration else ""
        return f"{self.doing}{self.place}{since}"


def held_by_imports(positions: Sequence[Position], worker: int) -> str:
    """Why a waiting worker can never go on, if it needs workers that wait for an import by it, else "".

    They may wait for it through others, but all of them wait.
    """
    reached, ahead = set[int](), [worker]
    while ahead:
        place = positions[ahead.pop()]
        if place.state != "waiting":
            return ""
        ahead += [each for each in place.needs if each not in reached]
        reached |= {*place.needs}
    imports = [positions[each] for each in sorted(reached) if positions[each].call.startswith(_HOLDING)]
    if worker not in reached or not imports:
        return ""
    held = ", ".join(
        f"{people_who(_ids(group), 'is', 'are')} {group[0].doing}{group[0].place}"
        for group in _alike(imports, site=True)
    )
    own = _OR_OWN if _imports(imports) else ""
    return (
        f"{held}: a shared module is executed by one worker, while the others wait for it - "
        f"put that into a function{own}"
    )


def _imports(positions: Iterable[Position]) -> bool:
    """Whether one waits for an import, which modules of its own avoid; what is loaded is always shared."""
    return any(each.call.startswith(IMPORT) for each in positions)


def _of_body(waiting: Sequence[Position]) -> str:
    """Why workers wait for each other, if it is a module's code that waits, else ""."""
    if not any(each.call.startswith(_HOLDING) for each in waiting):
        return ""
    return f"{_IN_BODY.format('imported')}{_OR_OWN}" if _imports(waiting) else _IN_BODY.format("loaded")


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis:
    """All workers of a session at one moment; its repr is a sentence and a table.

    Attributes:
        session_id: number of the session in its process.
        positions: one per worker, by id.
        given_up: how many threads were replaced because they did not end, and still have not ended.
    """

    session_id: int
    positions: tuple[Position, ...]
    given_up: int = 0

    @property
    def sentence(self) -> str:
        """What is going on, who keeps whom waiting, and how many given-up threads have not ended."""
        return f"{self._of_workers()}{self._of_given_up()}"

    def _of_given_up(self) -> str:
        if not self.given_up:
            return ""
        one = ("was", "has", "it runs", "it takes")
        several = ("were", "have", "they run", "they take")
        were, have, run, take = one if self.given_up == 1 else several
        return (
            f"; {plural(self.given_up, 'thread')} that {were} given up {have} not ended: if {run} on,"
            f" {take} time from the others and may change registers {until_the_end()}"
        )

    def _of_workers(self) -> str:
        waiting = [each for each in self.positions if each.state == "waiting"]
        if waiting:
            return self._of_waiting(waiting)
        busy = [each for each in self.positions if each.state != "idle"]
        if not busy:
            return "all workers are idle"
        said = [f"{people_who(_ids(group), 'is', 'are')} {group[0].doing}" for group in _alike(busy)]
        if len(busy) < len(self.positions):
            said.append("the others are idle")
        return ", ".join(said)

    def _of_waiting(self, waiting: Sequence[Position]) -> str:
        blocking = self.blocking()
        if not blocking:
            return f"{people(_ids(waiting))} wait for each other{_of_body(waiting)}"
        said = []
        for group in _alike([self.positions[worker] for worker in blocking], site=True):
            which = people_who(_ids(group), "keeps", "keep")
            said.append(f"{which} {people(self._held_by(_ids(group)))} waiting: {_why(group)}")
        return "; ".join(said)

    def _held_by(self, blocking: Iterable[int]) -> tuple[int, ...]:
        """Workers that wait for one of `blocking`, directly or through others."""
        waits = self._waits()
        waiting_for: dict[int, list[int]] = {}
        for key, (needs, _) in waits.items():
            for needed in needs:
                waiting_for.setdefault(needed, []).append(key)
        held, ahead = set[int](), [*blocking]
        while ahead:
            for key in waiting_for.pop(ahead.pop(), ()):
                _, workers = waits.pop(key, ((), ()))
                held.update(workers)
                ahead += workers
        return tuple(sorted(held))

    def _waits(self) -> dict[int, tuple[tuple[int, ...], list[int]]]:
        """Whom workers need, and which ones do; those in one wait together, as they need the same object."""
        found: dict[int, tuple[tuple[int, ...], list[int]]] = {}
        for each in self.positions:
            if each.state == "waiting":
                found.setdefault(id(each.needs), (each.needs, []))[1].append(each.worker)
        return found

    def before(self, seq: int, workers: Collection[int]) -> list[Position]:
        """The positions of those `workers` that are at a command sent before command `seq`."""
        return [each for each in self.positions if each.worker in workers and (each.seq or seq) < seq]

    def blocking(self) -> tuple[int, ...]:
        """Workers that others wait for and that do not wait themselves: the ends of all chains."""
        needed = {worker for needs, _ in self._waits().values() for worker in needs}
        return tuple(sorted(w for w in needed if self.positions[w].state != "waiting"))

    @property
    def has_unbegun(self) -> bool:
        """Whether a worker has commands but executes none."""
        return any(each.state == "queued" for each in self.positions)

    def groups(self) -> list[list[Position]]:
        """Workers that do the same at the same line, ordered by the first of each: the rows of the table."""
        return _alike(self.positions, site=True)

    @property
    def header(self) -> tuple[str, ...]:
        """The headings of the columns of `rows`."""
        return HEADER[: None if self._has_queues else -1]

    @property
    def _has_queues(self) -> bool:
        """Whether a worker has commands left, apart from the one it executes and the marker of a wait."""
        return any(each.behind > 2 for each in self.positions)

    def rows(self) -> list[tuple[str, ...]]:
        """The table's cells as text: a row for each set of workers that do the same."""
        rows: list[tuple[str, ...]] = []
        end = len(self.header)
        for group in self.groups():
            longest = longest_of(group)
            least, most = min(each.behind for each in group), max(each.behind for each in group)
            behind = f"{most:,}" if least == most else f"{least:,}-{most:,}"
            row = ranges(_ids(group)), group[0].doing, group[0].site, longest.duration, behind
            rows.append(row[:end])
        return rows

    def table(self) -> str:
        """The rows as text, a line per row, indented; below them what was not received."""
        lines = [*aligned([self.header, *self.rows()], words=WORDS), *self.unread()]
        return "\n".join(f"  {line}" for line in lines)

    def unread(self) -> list[str]:
        """A line for each of the first messages that waiting workers have not received."""
        return not_received(((each.worker, each.unread) for each in self.positions), " yet")

    def __str__(self) -> str:
        return f"{self.sentence}\n{self.table()}"

    def __repr__(self) -> str:
        return f"Disco session {self.session_id}: {self}"


def _ids(group: Iterable[Position]) -> tuple[int, ...]:
    return tuple(each.worker for each in group)


def _alike(positions: Iterable[Position], *, site: bool = False) -> list[list[Position]]:
    """Group positions that do the same, in order of the first of each."""
    groups: dict[tuple[str, ...], list[Position]] = {}
    known: dict[tuple[object, ...], str] = {}  # each makes its words only once
    for each in positions:
        same = each.state, each.command, each.call, id(each.needs)
        if same not in known:
            known[same] = each.doing
        groups.setdefault((known[same], each.site if site else ""), []).append(each)
    return list(groups.values())


def longest_of(group: Sequence[Position]) -> Position:
    """The position that has lasted longest, as far as that is known."""
    return max(group, key=lambda each: each.seconds or 0.0)


def _why(group: Sequence[Position]) -> str:
    """What the workers that others wait for are doing instead."""
    longest = longest_of(group)
    text = longest.doing
    if longest.site:
        text += f", now at {longest.site}"
    if longest.duration:
        text += f", for {longest.duration}"
    return text
