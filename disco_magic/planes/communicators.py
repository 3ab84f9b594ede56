"""NCCL's communicators of one plane: made by each worker's own thread, thrown away after an abort.

To make one is a collective call itself, which waits in C code for all members: it is made only where all of
them are known to come, when they have met. After an abort a communicator is of no use to any of its members;
the next call that they make together gets a new one.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from disco_magic.errors import PlaneAborted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Members = tuple[int, ...]


class _Invitation(NamedTuple):
    """To a communicator: which one of those that these members had, and NCCL's id; None: made by a split."""

    number: int
    unique_id: Any


class _Held(NamedTuple):
    number: int
    communicator: Any


class Communicators:
    """The communicators of one plane.

    Args:
        nccl: `cupy.cuda.nccl`.
        num_workers: number of workers.
        groups: members of each group; where all workers connect, theirs are split off at once.
    """

    def __init__(self, nccl: Any, num_workers: int, groups: Sequence[Members]) -> None:
        self._nccl = nccl
        self._everybody = tuple(range(num_workers))
        self._groups = [group for group in groups if 1 < len(group) < num_workers]
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._invitations: dict[Members, _Invitation] = {}
        self._held: list[dict[Members, _Held]] = [{} for _ in range(num_workers)]

    def prepare(self, members: Members) -> None:
        """Invite `members`, unless they are connected; by one of them, before the others connect."""
        with self._lock:
            invitation = self._invitations.get(members)
            if invitation is not None and all(self._holds(each, members, invitation) for each in members):
                return
            # Also where some are connected and some are not: a call of theirs was aborted, or a thread that
            # was given up still waits in NCCL with the former id.
            number = next(self._numbers)
            self._invitations[members] = _Invitation(number, self._nccl.get_unique_id())
            if members == self._everybody:
                self._invitations.update({group: _Invitation(number, None) for group in self._groups})

    def connect(self, worker: int, members: Members, is_over: Callable[[], bool] = lambda: False) -> Any:
        """The caller's communicator; waits for the other members if it has to be made.

        Args:
            worker: who connects.
            members: to whom.
            is_over: whether the caller's command has ended meanwhile: its thread may have been given up, and
                what it has made must not get into its successor's way.

        Raises:
            PlaneAborted: it has.
        """
        invitation = self._invitations[members]
        held = self._held[worker].get(members)
        if held is not None and held.number == invitation.number:
            return held.communicator
        made = self._nccl.NcclCommunicator(len(members), invitation.unique_id, members.index(worker))
        self._keep(worker, members, _Held(invitation.number, made), is_over)
        if members == self._everybody:
            try:
                self._split(worker, made, invitation.number, is_over)
            except BaseException:
                self.abort(worker, members, made)
                raise
        return made

    def _split(self, worker: int, world: Any, number: int, is_over: Callable[[], bool]) -> None:
        """The communicator of the worker's group; cheaper than one from scratch, and all members are here."""
        for color, group in enumerate(self._groups):
            if worker in group:
                split = world.commSplit(color, group.index(worker))
                self._keep(worker, group, _Held(number, split), is_over)

    def _holds(self, worker: int, members: Members, invitation: _Invitation) -> bool:
        held = self._held[worker].get(members)
        return held is not None and held.number == invitation.number

    def _keep(self, worker: int, members: Members, held: _Held, is_over: Callable[[], bool]) -> None:
        with self._lock:
            invitation = self._invitations.get(members)
            wanted = invitation is not None and invitation.number == held.number and not is_over()
            former = self._held[worker].get(members) if wanted else held
            if wanted:
                self._held[worker][members] = held
        if former is not None:
            former.communicator.abort()
        if not wanted:
            raise PlaneAborted(f"worker {worker} has left the command in which it was connecting")

    def abort(self, worker: int, members: Members, communicator: Any) -> None:
        """End what a communicator of the worker's does on the GPU; it cannot be used any more. Any thread."""
        held = self._held[worker].get(members)
        if held is not None and held.communicator is communicator:
            del self._held[worker][members]
            communicator.abort()

    def close(self) -> None:
        """Abort all: `destroy` would wait for the other members, one after the other."""
        with self._lock:
            self._invitations.clear()
        for worker, held in enumerate(self._held):
            for members, each in list(held.items()):
                self.abort(worker, members, each.communicator)
