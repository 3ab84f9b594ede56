"""NCCL's communicators of one plane: made by each worker's own thread, thrown away after an abort.

Making one is itself a collective call, which waits in C code for all members. So it is made only when all are
known to come, after they have met. After an abort none of the members can use the communicator any more;
their next call together gets a new one.
"""

from __future__ import annotations

import itertools
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.errors import PlaneAborted
from disco_magic.planes.aborts import Abort, goes_on, others_abort
from disco_magic.threads.ends import wait_for_end
from disco_magic.threads.locks import new_lock, takes
from disco_magic.threads.patience import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Members = tuple[int, ...]


# An abort waits for the earlier work of its GPU, perhaps for ever.
_PATIENCE_S: Final = 2.0
# NCCL does not allow to abort a communicator while a part is started on it. The first start connects its
# members to each other: with eight GPUs that takes seconds.
_LAUNCH_PATIENCE_S: Final = 10.0
# Limited: an abort that waits for an endless kernel must not block a restart, which is the remedy then.
_OTHERS_PATIENCE_S: Final = 5.0


class _Invitation(NamedTuple):
    """An invitation to a communicator.

    Attributes:
        number: distinguishes the communicators of the same members.
        unique_id: NCCL's; None: it is made by a split.
        parts: groups whose communicators are split off this one.
    """

    number: int
    unique_id: Any
    parts: Sequence[Members] = ()


class _Held(NamedTuple):
    number: int
    communicator: Any


class Communicators:
    """The communicators of one plane.

    Args:
        nccl: `cupy.cuda.nccl`.
        num_workers: number of workers.
        groups: members of each group. When all workers connect, the groups' communicators are split off in a
            single split, so that after a failure on one worker no other worker waits for it in a next one.
    """

    def __init__(self, nccl: Any, num_workers: int, groups: Sequence[Members]) -> None:
        self._nccl = nccl
        self._everybody = tuple(range(num_workers))
        # cupy before 14 does not split: there, each group connects when it is first used.
        splits = hasattr(nccl.NcclCommunicator, "commSplit")
        self._groups = [group for group in groups if splits and 1 < len(group) < num_workers]
        self._numbers = itertools.count(1)
        self._lock = new_lock()
        self._invitations: dict[Members, _Invitation] = {}
        self._held: list[dict[Members, _Held]] = [{} for _ in range(num_workers)]
        self._whole: dict[Members, list[Any]] = {}  # cache of `of`, until something changes
        # Held while a thread uses communicators that another thread may want to abort.
        self.launching = new_lock()
        self._ending: list[Abort] = []
        # Made by workers that left their command while connecting; they may still be in NCCL with them.
        self._unwanted: list[Any] = []

    def prepare(self, members: Members) -> bool:
        """Whether `members` are connected; if not, invite them. Called by one of them before they connect."""
        if self.of(members) is not None:
            return True
        # Without the lock, which stopping a cell needs: the first id of a process looks for networks.
        unique = self._nccl.get_unique_id()
        with self._lock:
            if self._of(members) is not None:
                return True
            # Invite all even if some are connected: a call of theirs was aborted, or a thread that was given
            # up still waits in NCCL with the former id.
            number = next(self._numbers)
            self._whole.clear()
            # Only if no group has a communicator: a new split would replace it, with its unfinished work.
            whole = members == self._everybody and self._has_none()
            parts = self._groups if whole else ()
            self._invitations[members] = _Invitation(number, unique, parts)
            self._invitations.update({part: _Invitation(number, None) for part in parts})
            return False

    def _has_none(self) -> bool:
        return all(self._of(group) is None for group in self._groups)

    def of(self, members: Members) -> list[Any] | None:
        """The communicators of `members`, in rank order; None if they are not connected."""
        whole = self._whole.get(members)
        if whole is None:
            with self._lock:
                whole = self._of(members)
                if whole is not None:
                    self._whole[members] = whole
        return whole

    def _of(self, members: Members) -> list[Any] | None:
        invitation = self._invitations.get(members)
        if invitation is None:
            return None
        held = [self._held[worker].get(members) for worker in members]
        found = [each.communicator for each in held if each is not None and each.number == invitation.number]
        return found if len(found) == len(members) else None

    def are_held(self, members: Members, communicators: Sequence[Any]) -> bool:
        """Whether `communicators` were not taken out, which happens to all members' at once."""
        held = self._held[members[0]].get(members)
        return held is not None and held.communicator is communicators[0]

    def connect(self, worker: int, members: Members, is_over: Callable[[], bool] = lambda: False) -> Any:
        """Return the caller's communicator; wait for the other members if it has to be made.

        Args:
            worker: the calling worker.
            members: the workers that connect.
            is_over: whether the caller's command has ended meanwhile: its thread may have been given up, and
                its communicator must not get into the way of the thread's successor.

        If it fails, `give_up` has to follow.
        """
        invitation = self._invitations[members]
        held = self._held[worker].get(members)
        if held is not None and held.number == invitation.number:
            return held.communicator
        wait_until(lambda: is_over() or not others_abort(self._ending), _OTHERS_PATIENCE_S)
        made = self._nccl.NcclCommunicator(len(members), invitation.unique_id, members.index(worker))
        wanted = self._keep(worker, members, _Held(invitation.number, made), is_over)
        try:
            # Even if the result is no longer wanted: the others wait in NCCL and cannot be called back.
            self._split(worker, made, invitation, is_over)
        finally:
            if not wanted:
                self._drop(made)
        if not wanted:
            raise PlaneAborted(f"worker {worker} has left the command in which it was connecting")
        return made

    def give_up(self, worker: int, members: Members) -> None:
        """Abort what `connect` has made before it failed, which ends the splits that others may wait in."""
        held, invitation = self._held[worker].get(members), self._invitations.get(members)
        if held is not None and invitation is not None and held.number == invitation.number:
            self.abort(worker, members, held.communicator)

    def _drop(self, unwanted: Any) -> None:
        with self._lock:  # `close` may have taken it, and a second abort would free it twice
            mine = unwanted in self._unwanted
            if mine:
                self._unwanted.remove(unwanted)
        if mine:
            self.in_thread(unwanted.abort)

    def _split(self, worker: int, world: Any, invitation: _Invitation, is_over: Callable[[], bool]) -> None:
        """Split off the communicator of the worker's group, which is cheaper than a new one: all are here."""
        for color, group in enumerate(invitation.parts):
            if worker in group:
                split = world.commSplit(color, group.index(worker))
                if not self._keep(worker, group, _Held(invitation.number, split), is_over):
                    self._drop(split)

    def _keep(self, worker: int, members: Members, held: _Held, is_over: Callable[[], bool]) -> bool:
        """Store `held` and return True if it is still wanted; if not, the caller or `close` aborts it."""
        with self._lock:
            invitation = self._invitations.get(members)
            wanted = invitation is not None and invitation.number == held.number and not is_over()
            former = None
            if wanted:
                former = self._held[worker].get(members)
                self._whole.pop(members, None)
                self._held[worker][members] = held
            else:
                self._unwanted.append(held.communicator)
        if former is not None:
            self.abort_soon([former.communicator])
        return wanted

    def abort(self, worker: int, members: Members, communicator: Any) -> None:
        """End the work of one of the worker's communicators, which becomes unusable. From any thread."""
        with self._lock:
            mine = self._take(worker, members, communicator)
        if mine:
            communicator.abort()

    def _take(self, worker: int, members: Members, communicator: Any) -> bool:
        held = self._held[worker].get(members)
        mine = held is not None and held.communicator is communicator
        if mine:
            del self._held[worker][members]
            self._whole.pop(members, None)
        return mine

    def take_out(self, members: Members, communicators: Sequence[Any]) -> list[Any]:
        """Take out those of `communicators` that are still held, and return them for `abort_soon`."""
        pairs = zip(members, communicators, strict=True)
        with self._lock:
            taken = [self._take(worker, members, each) for worker, each in pairs]
        return [*itertools.compress(communicators, taken)]

    def abort_soon(self, communicators: Sequence[Any]) -> None:
        """Abort what was taken out, each in its own thread: an abort waits for earlier work of its GPU."""
        for communicator in communicators:
            self.in_thread(partial(self._abort, communicator))

    def _abort(self, communicator: Any) -> None:
        self._await_launch()  # a thread may use it that got it before it was taken out
        communicator.abort()

    def _await_launch(self) -> None:
        # Limited: a start that waits for room in a GPU's queue goes on only when others are aborted.
        for _ in takes(self.launching, _LAUNCH_PATIENCE_S):
            self.launching.release()
            break

    def in_thread(self, work: Callable[[], object]) -> bool:
        """Call ``work()`` in a new thread; as long as one is alive, `are_ending` is true.

        Returns False if no thread can be started: there are too many, or the interpreter is ending. Then what
        was to be aborted ends with the process.
        """
        with self._lock:
            self._ending = list(filter(goes_on, self._ending))
            try:
                new = Abort(work)
            except RuntimeError:
                return False
            self._ending.append(new)
        return True

    @property
    def are_ending(self) -> bool:
        """Whether some communicators are still being aborted; until then nothing may start on their GPUs."""
        # The list is nearly always empty: checking that first takes a tenth of `any`, twice per call.
        return bool(self._ending) and any(each.goes_on for each in self._ending)

    def close(self) -> None:
        """Abort all communicators: `destroy` would wait for the other members, one after the other."""
        with self._lock:
            self._invitations.clear()
            self._whole.clear()
            # First, so that nobody who comes now uses one that is about to be aborted.
            taken = [each.communicator for held in self._held for each in held.values()]
            for held in self._held:
                held.clear()
            unwanted, self._unwanted = self._unwanted, []
        self._await_launch()
        for communicator in taken:
            # The last abort of a process frees the memory of all, which waits for the GPUs: with an
            # endless kernel for ever. A restart, which needs this, often comes with just such a kernel.
            if not self.in_thread(communicator.abort):
                communicator.abort()
        for communicator in unwanted:
            self.in_thread(communicator.abort)
        until = time.monotonic() + _PATIENCE_S
        for each in list(self._ending):
            wait_for_end(each.thread, max(0.0, until - time.monotonic()))
