"""Array verbs between single workers or groups, which Disco offers on its workers only.

As in `verbs`: asynchronous, optional destination; impossible arguments raise UsageMistake before anything is
sent; errors that the workers find are raised as a WorkerError by the next `sync_*`, `get` or end of a cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.core.numbers import whole_number
from disco_magic.errors import UsageMistake
from disco_magic.functions import worker_builtins
from disco_magic.functions.participants import who
from disco_magic.planes.reductions import check_op
from disco_magic.session.calls import Calls

if TYPE_CHECKING:
    from disco_magic.core.topology import Axes
    from disco_magic.session.dref import DRef


class Exchange(Calls):
    """Mixin of `Session`, built from its commands.

    One command covers both ends of a message here, because `send` and `recv` on workers pair only within a
    command.
    """

    def reduce(
        self,
        src: DRef,
        dst: DRef | None = None,
        op: str = "sum",
        in_group: bool = True,  # noqa: FBT001, FBT002 - the order of Disco's allreduce
        *,
        root: int = 0,
        over: Axes | None = None,
    ) -> DRef:
        """Reduce arrays of one shape `s` and dtype element by element; one worker gets the result.

        Args:
            src: register of shape `s`.
            dst: register with an array of shape `s` and the result's dtype on the root; may be `src`.
            op: one of ``sum prod min max avg``; precision: `WorkerContext.allreduce`.
            in_group: one result per group, or one of all workers.
            root: rank of the worker that gets it, among those that work together.
            over: one result for each set of workers that differ only along these axes of the mesh.

        Returns:
            Register of shape `s` on the root; the others hold what `dst` holds there, or None.

        Raises:
            UsageMistake: another `op`, or no such rank; nothing was sent.

        Cost: each element of every worker's array is read once, the result is written once.
        """
        op = check_op("reduce", op)
        members = self.taking_part("reduce", over, in_group=in_group)
        size = self.topology.part_size(**who(members))
        rank = _number("reduce", "root", root, size, "rank")
        self.check_destination(dst)
        return self.call_packed(worker_builtins.reduce, src, op, rank, members, dst)

    def send_to_worker(
        self, src: DRef, receiver_id: int, sender_id: int = 0, dst: DRef | None = None
    ) -> DRef:
        """Copy one worker's array to another worker; the others' `src` is ignored.

        Args:
            src: register with an array of any shape `s` on the sender.
            receiver_id: id of the worker that gets the copy.
            sender_id: id of the worker that has the array.
            dst: register with an array of that dtype and as many elements on the receiver, filled in C order.

        Returns:
            Register of shape `s`, or `dst`, on the receiver; the others hold what `dst` holds there, or None.
            Exact.

        Raises:
            UsageMistake: there is no worker of that id; nothing was sent.

        Cost: one copy, with `dst` two; no other worker waits.
        """
        sender = _number("send_to_worker", "sender_id", sender_id, self.num_workers, "worker id")
        receiver = _number("send_to_worker", "receiver_id", receiver_id, self.num_workers, "worker id")
        self.check_destination(dst)
        return self.call_packed(worker_builtins.copy_to_worker, src, dst, sender, receiver)

    def send_to_next_group(self, src: DRef, dst: DRef | None = None) -> DRef:
        """Copy each group's arrays to the next group, worker by worker in rank order: a pipeline step.

        Args:
            src: register with arrays of any shape `s`, which may differ between workers; ignored in the last
                group.
            dst: register with arrays of that dtype and as many elements in every group but the first, filled
                in C order.

        Returns:
            Register of what came from the previous group, shape `s` or `dst`; the first group holds what
            `dst` holds there, or None. Exact.

        Raises:
            UsageMistake: the session has one group; nothing was sent.

        Cost: one copy per array, with `dst` two; all groups copy at the same time.
        """
        if self.num_groups == 1:
            raise UsageMistake(
                f"send_to_next_group: session {self.id} has one group, there is no next one; start it with "
                "num_groups=2 or more"
            )
        self.check_destination(dst)
        return self.call_packed(worker_builtins.shift_to_next_group, src, dst)


def _number(verb: str, name: str, value: object, count: int, what: str) -> int:
    number = whole_number(value)
    if number is None or not 0 <= number < count:
        raise UsageMistake(f"{verb}: {name} is {value!r}, expected a {what} from 0 to {count - 1}")
    return number
