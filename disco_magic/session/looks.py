"""Looking at a session's registers, and at its workers, without waiting for one."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.snapshot import Row, SessionSnapshot, merge
from disco_magic.errors import UsageMistake, is_told
from disco_magic.session import marked
from disco_magic.session.accounts import Accounts
from disco_magic.session.arguments import check_there
from disco_magic.session.part_tables import parts_of
from disco_magic.values.describe import affordable_sample, describe
from disco_magic.values.parts import on_part, on_parts, split

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from disco_magic.core.circles import Workers
    from disco_magic.core.doctor import Diagnosis
    from disco_magic.core.register_parts import RegisterParts
    from disco_magic.session.dref import DRef

__tracebackhide__ = is_told

_TAKEN_UP_S: Final = 0.02  # a worker that sleeps has taken up by then what it is sent, if it gets to run
_LOOK_S: Final = 0.0005


class Looks(Accounts):
    """Mixed into `Session`; everything here works while workers are busy or stuck."""

    def doctor(self) -> Diagnosis:
        """Who is where, since when, and who keeps whom waiting; also while workers are busy or stuck.

        Returns:
            A sentence and a table; shows itself.

        Raises:
            SessionClosed: the session was shut down.

        Cost: no message; tens of microseconds per worker, which notices nothing. Up to 20 ms if one is about
        to take up what it was sent: then all are looked at again.

        Example:
            >>> with disco.ThreadedSession(2) as fresh:
            ...     print(fresh.doctor())
            all workers are idle
              worker  doing  where  for
              [0-1]   idle
        """
        if self.closed:
            self._refuse()
        deadline, clock = time.monotonic() + _TAKEN_UP_S, threading.Event()
        while (found := self.diagnosis()).has_unbegun and time.monotonic() < deadline:
            clock.wait(_LOOK_S)
        return found

    def beside(self, worker: int, timeout_s: float) -> AbstractContextManager[bool]:
        """Work with a worker's arrays in the calling thread, on its GPU and stream, in a ``with`` block.

        Gives whether the GPU is done with what the worker had queued, which is waited for `timeout_s`
        seconds at most.
        """
        return self._launcher.beside(worker, timeout_s)

    def registers(self, *, numbered: bool = False, sample: int | None = None) -> SessionSnapshot:
        """A picture of the named registers, with `numbered` of all; also while workers are busy.

        Never waits for a worker, runs no code of the values. An array that is being looked at cannot be
        resized in place (`ndarray.resize`) by a cell at that moment. Of arrays on a GPU nothing but type,
        shape, dtype and bytes is told while their worker has work there, or the GPU is busy with other work.

        Args:
            numbered: include the registers that references hold, as ``#5``.
            sample: elements per register and worker that statistics and comparisons look at, at most; 0: only
                types, shapes, dtypes and bytes. None: 4,194,304 where the registers of all workers have
                128 MiB and 33,554,432 elements or less together, on the host; else 65,536.
                `RegisterInfo.sampled` tells of which only a part was looked at.

        Cost: 15 us per register and worker, 10 us for each part of containers, of which 1,000 are compared
        (256 with a `sample` of less than 65,536), and 6 to 20 ns per element that is looked at. On GPUs it
        takes 30 us, and some waits of 50 us. One that is busy is waited for a quarter of a second at most.
        """
        _check_sample(sample)
        if self.closed:
            self._refuse()
        self.flush()
        if sample is None:
            seen = self._launcher.look(numbered=numbered, sample=0)
            sample = affordable_sample([info for each in seen for _, info in each])
        held = self._launcher.look(numbered=numbered, sample=sample)
        circles = self.circles_of_marks()
        parts = marked.drifted(self.examine, circles, sample) if sample else ()
        return replace(merge(self.id, held, circles), parts=parts)

    def circles_of_marks(self) -> dict[str, tuple[Workers, ...]]:
        """Registers and parts marked as equal -> who is meant to agree, see `marked.circles_of`."""
        return marked.circles_of(self._launcher.marks(), self.mesh) if self.mesh else {}

    def examine(
        self,
        register: str | DRef,
        function: Callable[..., Any],
        *arguments: Any,
        workers: Sequence[int] | None = None,
    ) -> list[Any]:
        """``function(value, *arguments)`` of one register on each worker; waits for no worker, sends nothing.

        The calling thread runs it on the workers' own values, which may be changing: `function` must leave
        them as they are, keep no reference to them and, unless a person asked for just that, run no code of
        theirs, like those of `disco_magic.values.peek`.

        Elements on a GPU may still be to be computed when the array is there. The functions of `peek` raise
        NoPicture then; one of your own reads them, through `elements_of`, as these do.

        Args:
            register: a name, ``"#5"`` as tables label a numbered one, or a reference; or a part of one, as
                `check` and the inspector write it: ``"model.0.weight"``, ``"params['w']"``.
            function: where workers are processes it has to travel: better one of a module than of a cell.
            *arguments: handed over as they are.
            workers: ids; None: all.

        Returns:
            What it returned, in the order of the ids. None for a worker without a value: it has not bound the
            name or come to the command yet, or the command failed; `registers` tells which.

        Raises:
            UnknownName: no worker has such a register, also none that was not asked; or one of them has it,
                and none has such a part.
            UsageMistake: no such worker, or no reference of this session.
            SessionClosed: the session was shut down.
            Exception: what `function` raised, of the first worker on which it did.
        """
        chosen = self._everybody if workers is None else self.check_workers(workers)
        return self._examined(register, on_part, function, arguments, [(worker,) for worker in chosen])

    def examine_pair(
        self, register: str | DRef, function: Callable[..., Any], *arguments: Any, workers: Sequence[int]
    ) -> Any:
        """``function(first, second, *arguments)`` of one register's values on two workers; as `examine`.

        Args:
            register: as with `examine`.
            function: of the two values, as with `examine`.
            *arguments: handed over after the values.
            workers: two ids, in the order in which their values are handed over.

        Returns:
            What it returned; None if one of them has no value.
        """
        pair = tuple(workers)
        if len(pair) != 2:
            raise UsageMistake(f"examine_pair takes two workers, got {len(pair)}: {list(pair)}")
        first, second = (self.check_workers((worker,))[0] for worker in pair)
        return self._examined(register, on_parts, function, arguments, [(first, second)])[0]

    def examine_names(
        self, function: Callable[..., Any], *arguments: Any, workers: Sequence[int] | None = None
    ) -> list[Any]:
        """``function(bound, behind, *arguments)`` on each worker: what its cells have bound, and see besides.

        Tab completion and Shift-Tab are made of it. Waits for no worker and sends nothing; `function` has to
        be as careful as one of `examine`, and returns plain data.

        Args:
            function: gets two dictionaries from names to the worker's own values, which are its to change and
                are emptied when it has returned: the names of the worker's namespace, and those behind it:
                `np`, `worker`, the collectives, Python's own.
            *arguments: handed over as they are.
            workers: ids; None: all.

        Returns:
            What it returned, in the order of the ids.

        Raises:
            UsageMistake: no such worker.
            SessionClosed: the session was shut down.
            Exception: what `function` raised, of the first worker on which it did.
        """
        chosen = self._everybody if workers is None else self.check_workers(workers)
        if self.closed:
            self._refuse()
        return self._launcher.examine_names(function, arguments, chosen)

    def _examined(
        self,
        register: str | DRef,
        of_part: Callable[..., Any],
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        circles: list[tuple[int, ...]],
    ) -> list[Any]:
        label, written = split(register) if isinstance(register, str) else (f"#{self.own(register)}", "")
        since = 0 if isinstance(register, str) else register.seq
        if self.closed:
            self._refuse()
        if written:
            function = partial(of_part, written, function)
        found = self._launcher.examine(label, function, arguments, circles, since)
        if isinstance(register, str) and all(each is None for each in found):
            check_there(self._launcher, label, written)
        return found

    def look_at(self, register: str) -> Row:
        """What one register, or a part of it, holds on every worker; as `registers`, waits for no worker.

        Args:
            register: a name, ``"#5"``, or a part of one, see `examine`.

        Raises:
            UnknownName, SessionClosed: as `examine`.

        Example:
            >>> session.run("params = {'w': np.zeros((2, 3)), 'b': np.arange(3)}").errors
            {}
            >>> session.look_at("params['b']")
              params['b']  [0-3] int64 3 · cpu · 24 B · min 0 mean 1 max 2
        """
        cells = tuple(self.examine(register, describe))
        return Row(register, cells, circles=marked.innermost(self.circles_of_marks(), register))

    def look_into(self, register: str, *, sample: int | None = None) -> RegisterParts:
        """What is in one register, part by part, on every worker; as `registers`, waits for no worker.

        Of containers, modules and optimizers of PyTorch, objects of your own classes and data frames: their
        arrays, numbers and texts. Which part differs, where a model has NaN.

        Args:
            register: a name, ``"#5"``, or a part of one, see `examine`.
            sample: elements of each part to look at on each worker, at most; None: 4,194,304 where the parts
                of all workers have 128 MiB and 33,554,432 elements or less in all, on the host; else 65,536.

        Raises:
            UnknownName, SessionClosed, UsageMistake: as `examine`.

        Cost: as `registers`, per part.

        Example:
            >>> session.run("net = {'w': np.ones((2, 3)), 'b': np.full(3, worker_id % 2), 'lr': 0.1}").errors
            {}
            >>> [row.name for row in session.look_into("net").shown]
            ["net['b']", "net['w']", "net['lr']"]
        """
        _check_sample(sample)
        if not isinstance(register, str):
            raise UsageMistake(
                f"look_into takes the name of a register, or of a part, got {type(register).__name__}; the "
                "row of a reference is its .info()"
            )
        return parts_of(self, register, sample)

    def picture(self, dref: DRef) -> Row:
        """What one register holds on every worker, as far as they have come; what `DRef.info` calls."""
        register = self.own(dref)
        if self.closed:
            self._refuse()
        launcher = self._launcher
        places = launcher.positions()  # first: who has come to it meanwhile has a value
        cells = tuple(launcher.look_at(register, dref.seq))
        coming = frozenset(each.worker for each in places if each.behind and (each.seq or 0) <= dref.seq)
        return Row(f"#{register}", cells, coming & {w for w, cell in enumerate(cells) if cell is None})


def _check_sample(sample: object) -> None:
    if sample is not None and (type(sample) is not int or sample < 0):
        raise UsageMistake(f"sample is {sample!r}, expected a whole number of elements, 0 or more")
