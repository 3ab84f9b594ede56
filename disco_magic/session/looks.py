"""Looks at a session's registers and workers without waiting for them."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.circles import circles_of_parts
from disco_magic.core.numbers import truth
from disco_magic.core.snapshot import Row, SessionSnapshot, merge
from disco_magic.errors import UsageMistake, is_told
from disco_magic.session import marked
from disco_magic.session.accounts import Accounts
from disco_magic.session.arguments import check_name, check_there
from disco_magic.threads.patience import pause
from disco_magic.values.describe import affordable_sample, describe
from disco_magic.values.parts import split
from disco_magic.values.subscripts import on_part, on_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from disco_magic.core.circles import Workers
    from disco_magic.core.doctor import Diagnosis
    from disco_magic.core.register_parts import RegisterParts
    from disco_magic.session.dref import DRef

__tracebackhide__ = is_told

_TAKEN_UP_S: Final = 0.02  # by then a sleeping worker has taken up what it was sent, if it gets to run
_LOOK_S: Final = 0.0005


class Looks(Accounts):
    """Mixin of `Session`; everything here works while workers are busy or stuck."""

    def doctor(self) -> Diagnosis:
        """Report where each worker is, since when, and which one keeps others waiting.

        Returns:
            A sentence and a table; displays itself. Works while workers are busy or stuck.

        Raises:
            SessionClosed: the session was shut down.

        Cost: no message; tens of microseconds per worker, which the workers do not notice. Up to 20 ms if one
        is about to take up what it was sent: then all are looked at again.

        Example:
            >>> with disco.ThreadedSession(2) as fresh:
            ...     print(fresh.doctor())
            all workers are idle
              worker  doing  where  for
              [0-1]   idle
        """
        if self.closed:
            self._refuse()
        deadline = time.monotonic() + _TAKEN_UP_S
        while (found := self.diagnosis()).has_unbegun and time.monotonic() < deadline:
            pause(_LOOK_S)
        return found

    def beside(self, worker: int, timeout_s: float) -> AbstractContextManager[bool]:
        """Within it, the calling thread can work with a worker's arrays, on its GPU and stream.

        Yields whether the GPU has finished what the worker had queued, after waiting for that for at most
        `timeout_s` seconds.
        """
        return self._launcher.beside(worker, timeout_s)

    def registers(self, *, numbered: bool = False, sample: int | None = None) -> SessionSnapshot:
        """Take a snapshot of the named registers, or with `numbered` of all; works while workers are busy.

        Never waits for a worker and runs no code of the values. While an array is being looked at, a cell
        cannot resize it in place (`ndarray.resize`). For arrays on a GPU, only type, shape, dtype and bytes
        are shown while their worker has work there, or the GPU is busy with other work.

        Args:
            numbered: include the registers that references hold, as ``#5``.
            sample: how many elements per register and worker statistics and comparisons look at, at most; 0:
                only types, shapes, dtypes and bytes. None: 4,194,304 where the registers of all workers have
                128 MiB and 33,554,432 elements or less together, on the host; else 65,536.
                `RegisterInfo.sampled` is set where only a part was looked at.

        Cost: 15 us per register and worker, 10 us for each part of containers, of which 1,000 are compared
        (256 with a `sample` of less than 65,536), and 6 to 20 ns per element that is looked at. On GPUs it
        takes 30 us, and some waits of 50 us. A busy GPU is waited for a quarter of a second at most.

        Example:
            >>> session.run("x = np.arange(3) * worker_id").errors
            {}
            >>> session.registers().row("x").cells[2].maximum
            4.0
        """
        numbered = truth("registers", "numbered", numbered)
        _check_sample(sample)
        if self.closed:
            self._refuse()
        self.flush()
        if sample is None:
            seen = self._launcher.look(numbered=numbered, sample=0)
            sample = affordable_sample([info for each in seen for _, info in each])
        held = self._launcher.look(numbered=numbered, sample=sample)
        circles = self.circles_of_marks()
        snapshot = merge(self.id, held, circles)
        if not circles or not sample:
            return snapshot
        from disco_magic.session.looking_into import drifted  # few sessions have marks

        return replace(snapshot, parts=drifted(self.examine, circles, sample))

    def circles_of_marks(self) -> dict[str, tuple[Workers, ...]]:
        """Map what is marked as equal to the workers that have to agree on it: see `marked.circles_of`."""
        return marked.circles_of(self._launcher.marks(), self.mesh) if self.mesh else {}

    def examine(
        self,
        register: str | DRef,
        function: Callable[..., Any],
        *arguments: Any,
        workers: Sequence[int] | None = None,
    ) -> list[Any]:
        """Call ``function(value, *arguments)`` on a register's value of each worker, without a command.

        Waits for no worker. The calling thread runs it on the workers' own values, which may be changing:
        `function` must not change them, must keep no reference to them and, unless a person asked for just
        that, must run no code of theirs, like the functions of `disco_magic.values.peek`.

        An array on a GPU may exist before its elements are computed. The functions of `peek` raise NoPicture
        then; a function of your own should read elements as these do, through `elements_of`.

        Args:
            register: a name, ``"#5"`` as tables label a numbered one, or a reference; or a part of one, as
                `check` and the inspector write it: ``"model.0.weight"``, ``"params['w']"``; or what numbers
                and slices select of an array of NumPy, CuPy or PyTorch, ``"x[0,2:4]"``.
            function: if workers are processes it has to be sent there: better from a module than from a cell.
            *arguments: passed on unchanged.
            workers: ids; None: all.

        Returns:
            The results, in the order of the ids. None for a worker without a value: it has not bound the
            name or reached the command yet, or the command failed; `registers` says which.

        Raises:
            UnknownName: no worker has such a register, including those not asked; or none of those that have
                it has such a part.
            UsageMistake: no such worker, or not a reference of this session.
            SessionClosed: the session was shut down.
            Exception: what `function` raised, on the first worker on which it did.

        Example:
            >>> session.run("x = [1, 2]").errors
            {}
            >>> session.examine("x", len, workers=[0, 3])
            [2, 2]
        """
        chosen = self._chosen(workers)
        return self._examined(register, on_part, function, arguments, [(worker,) for worker in chosen])

    def examine_pair(
        self, register: str | DRef, function: Callable[..., Any], *arguments: Any, workers: Sequence[int]
    ) -> Any:
        """Call ``function(first, second, *arguments)`` on a register's values of two workers; as `examine`.

        Args:
            register: as with `examine`.
            function: takes the two values; as with `examine`.
            *arguments: passed after the values.
            workers: two ids, in the order in which their values are passed.

        Returns:
            The result; None if one of them has no value.

        Example:
            >>> session.run("x = worker_id").errors
            {}
            >>> session.examine_pair("x", lambda a, b: a - b, workers=[3, 1])
            2
        """
        pair = tuple(workers)
        if len(pair) != 2:
            raise UsageMistake(f"examine_pair takes two workers, got {len(pair)}: {list(pair)}")
        first, second = (self.check_workers((worker,))[0] for worker in pair)
        return self._examined(register, on_parts, function, arguments, [(first, second)])[0]

    def examine_names(
        self, function: Callable[..., Any], *arguments: Any, workers: Sequence[int] | None = None
    ) -> list[Any]:
        """Call ``function(bound, behind, *arguments)`` on the names that each worker's cells can use.

        Serves tab completion and Shift-Tab. Waits for no worker and sends nothing; `function` has to be as
        careful as one of `examine`, and returns plain data.

        Args:
            function: takes two dictionaries from names to the worker's own values: the names that its cells
                have bound, and those beneath them: `np`, `worker`, the collectives, Python's own. It may
                change the dictionaries, which are emptied when it has returned.
            *arguments: passed on unchanged.
            workers: ids; None: all.

        Returns:
            The results, in the order of the ids.

        Raises:
            UsageMistake: no such worker.
            SessionClosed: the session was shut down.
            Exception: what `function` raised, on the first worker on which it did.
        """
        chosen = self._chosen(workers)
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
            check_there(self._launcher, label, written, self.former_names)
        return found

    def look_at(self, register: str) -> Row:
        """Describe one register, or a part of it, on every worker; as `registers`, waits for no worker.

        Args:
            register: a name, ``"#5"``, or a part of one, see `examine`.

        Raises:
            UnknownName, SessionClosed, UsageMistake: as `examine`.

        Example:
            >>> session.run("params = {'w': np.zeros((2, 3)), 'b': np.arange(3)}").errors
            {}
            >>> session.look_at("params['b']")
              params['b']  [0-3] int64 3 · cpu · 24 B · min 0 mean 1 max 2
        """
        check_name("look_at", register)
        cells = tuple(self.examine(register, describe))
        return Row(register, cells, circles=marked.innermost(self.circles_of_marks(), register, cells))

    def look_into(self, register: str, *, sample: int | None = None) -> RegisterParts:
        """Describe one register part by part, on every worker; as `registers`, waits for no worker.

        For containers, modules and optimizers of PyTorch, objects of your own classes and data frames: their
        arrays, numbers and texts. Shows which part differs, or where a model has NaN.

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
        check_name("look_into", register)
        from disco_magic.session.looking_into import described_parts  # few look into registers

        return described_parts(self, register, sample)

    def picture(self, dref: DRef) -> Row:
        """Describe one register on every worker, as far as they have come; `DRef.info` calls this."""
        register = self.own(dref)
        if self.closed:
            self._refuse()
        launcher = self._launcher
        asked = getattr(dref, "sent_to", range(self.num_workers))
        # First: a worker that gets to it after this has a value.
        coming = frozenset(worker for worker in asked if not launcher.has_left(worker, dref.seq))
        cells = tuple(launcher.look_at(register, dref.seq))
        missing = coming & {w for w, cell in enumerate(cells) if cell is None}
        return Row(f"#{register}", cells, missing, circles_of_parts(cells))


def _check_sample(sample: object) -> None:
    if sample is not None and (type(sample) is not int or sample < 0):
        raise UsageMistake(f"sample is {sample!r}, expected a whole number of elements, 0 or more")
