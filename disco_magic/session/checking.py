"""Divergence checks: whether registers agree between workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.callers.current import refuse_in_worker
from disco_magic.core.numbers import truth
from disco_magic.errors import UsageMistake, is_told
from disco_magic.errors.mistakes import about
from disco_magic.functions.participants import is_grouped
from disco_magic.session.arguments import check_there
from disco_magic.session.calls import Calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.report import CheckReport
    from disco_magic.core.topology import Axes

__tracebackhide__ = is_told


class Checks(Calls):
    """The `check()` mixin of `Session`."""

    def check(
        self,
        *names: str,
        values: bool | None = None,
        workers: Sequence[int] | None = None,
        in_group: bool = False,
        over: Axes | None = None,
        rtol: float = 0.0,
        atol: float = 0.0,
        timeout: float | None = None,
    ) -> CheckReport:
        """Compare registers between workers, after everything sent so far, and wait for the result.

        Compared are: whether all workers have them, types, shapes, dtypes and devices. For Python's own
        containers, named tuples and dataclass instances: their length, the types of plain values in them, and
        arrays, containers and objects in them as if they were registers, ``params['w']``,
        ``config.layers[0]``. For data frames of pandas and polars: the columns. Instances count as the same
        type if their classes have the same qualified name, even if each worker has defined its own. Contents
        of other objects, deeper than 8 containers or beyond 1,000 parts (10,000 when values are compared) are
        not compared; the report names them. DTensors have to agree between workers that hold the same part.
        In the middle of a cell, use `WorkerContext.check`.

        Args:
            *names: registers or parts of them, ``params['w']``, ``model.norm.weight``, ``x[0:2]``; none: all
                registers.
            values: compare values too, bit for bit (0.0 is not -0.0, a NaN equals the same NaN): those of
                `names`, or without names those of registers and parts marked by `worker.replicated` or
                replicated by a plan, and of DTensors whose same part is on several workers. None: if names
                are given. Works for arrays, those of PyTorch and JAX on the CPU, numbers, text, columns and
                labels of data frames, and containers of these; PyTorch's modules are compared by their
                ``state_dict()``.
                The report lists what could not be compared, and is then false. Without names, a register
                marked by only some of the workers that have it is a difference too.
            workers: compare only these; None: all.
            in_group: workers have to agree only with those of their group.
            over: only with those that differ along these axes of the mesh. Registers that
                ``worker.replicated(w, over=...)`` has marked have to agree only along the axes of their
                marks, unless both names and axes are given here.
            rtol: with `values`, how far a floating-point number may be from that of the first of the workers
                that have to agree; as in `WorkerContext.check`.
            atol: as `rtol`; see there.
            timeout: seconds to wait at most; None: `self.timeout`.

        Returns:
            CheckReport: true if nothing differs and all requested values could be compared; rows,
                a table as text and HTML, `raise_if_differing()`.

        Raises:
            UnknownName: no worker has a register of that name; near misses are in the message.
            WorkerError: something failed before this.
            SyncTimeout: the time ran out; the workers go on.
            UsageMistake: called on a worker; no such worker; a tolerance without values to compare.
            KeyboardInterrupt: Ctrl-C or the stop button; the workers go on.

        Cost: microseconds per register; with `values` one pass over their data on every worker, at about
        1 GB/s per core, without copying contiguous arrays; with a tolerance, values that differ are gathered
        on the first worker, one after the other.

        Example:
            >>> session.run("same = np.zeros(3); mine = same + worker_id // 3").errors
            {}
            >>> report = session.check("same", "mine")
            >>> report.ok, [row.name for row in report.differing]
            (False, ['mine'])
            >>> print(report.summary)
            [0-3] differ in: mine; agree on: same
        """
        refuse_in_worker(self.id, "check", "worker.check(x)")
        wrong = [name for name in names if not isinstance(name, str)]
        if wrong:
            raise UsageMistake(f"check takes names of registers, got {type(wrong[0]).__name__}")
        values = bool(names) if values is None else truth("check", "values", values)
        in_group = is_grouped("check", in_group)
        chosen = self._chosen(workers)
        # Here: a check brings twenty files that few sessions need.
        from disco_magic.session.comparing import check_registers

        return check_registers(
            self,
            names,
            chosen,
            values=values,
            in_group=in_group,
            over=over,
            rtol=rtol,
            atol=atol,
            timeout=timeout,
        )

    def refuse_unknown(self, name: str) -> None:
        """Raise UnknownName for a register, or a part of one, that no worker has."""
        from disco_magic.values.parts import split

        with about("check"):
            check_there(self._launcher, *split(name), self.former_names)
