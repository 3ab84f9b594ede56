"""Two ranks of bare `cupy.cuda.nccl` on one GPU: ``python -m tests.gpu.ranks SCENE DEADLINE_S RANK``.

Each rank is a process; in a rehearsal (rank ``both``) a thread, since the double of NCCL knows one process.
Ranks hand each other notes through whoever started them.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import Any

from disco_magic.planes.nccl import load_nccl
from disco_magic.planes.nccl_errors import async_error
from disco_magic.threads.patience import wait_until
from tests.gpu.apart import MARK, say, until_deadline
from tests.gpu.machine import machine

FLOAT32, BYTES, SUM = 7, 1, 0
PATIENCE_S = 10.0


class ByPipes:
    """Notes of a process to its peer, through their parent."""

    dies = True

    def say(self, **note: Any) -> None:
        """To the peer, and into the outcome."""
        say(**note)

    def hear(self, name: str) -> Any:
        """The peer's next note of that name."""
        for line in sys.stdin:
            note = json.loads(line.removeprefix(MARK))
            if name in note:
                return note[name]
        raise EOFError(f"the peer has ended without a word of {name!r}")


class ByQueues:
    """The same between threads."""

    dies = False

    def __init__(self, outgoing: queue.SimpleQueue[Any], incoming: queue.SimpleQueue[Any]) -> None:
        self._outgoing, self._incoming = outgoing, incoming

    def say(self, **note: Any) -> None:
        """See `ByPipes.say`."""
        say(**note)
        self._outgoing.put(note)

    def hear(self, name: str) -> Any:
        """See `ByPipes.hear`."""
        while name not in (note := self._incoming.get(timeout=60)):
            pass
        return note[name]


class Rank:
    """One rank: its stream, its arrays, its communicator with the other one."""

    def __init__(self, cupy: Any, rank: int, peer: Any) -> None:
        self.cupy, self.rank, self.peer = cupy, rank, peer
        self.nccl = load_nccl(cupy)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.communicator = self.connect()

    def connect(self) -> Any:
        """A new communicator; both have to."""
        unique_id = self.nccl.get_unique_id()
        if self.rank == 0:
            self.peer.say(id=list(unique_id))
        else:
            unique_id = type(unique_id)(self.peer.hear("id"))
        return self.nccl.NcclCommunicator(2, unique_id, self.rank)

    def allreduce(self, length: int = 1000) -> tuple[Any, Any]:
        """Queue one; the result, and the event behind it."""
        x = self.cupy.full(length, self.rank + 1, dtype="float32")
        y = self.cupy.zeros(length, "float32")
        self.communicator.allReduce(x.data.ptr, y.data.ptr, length, FLOAT32, SUM, self.stream.ptr)
        self._kept = x
        return y, self.recorded()

    def recorded(self) -> Any:
        """An event behind everything that is queued."""
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(self.stream)
        return event

    def ends(self, event: Any, seconds: float = PATIENCE_S) -> bool:
        """Whether the stream gets to `event` in time."""
        limit = time.monotonic() + seconds
        wait_until(lambda: event.done or time.monotonic() > limit)
        return bool(event.done)

    def works(self, length: int = 1000) -> bool:
        """Whether an allreduce of both gives the right numbers."""
        y, event = self.allreduce(length)
        return self.ends(event) and bool((y == 3).all())

    def together(self, what: str) -> None:
        """Return when both are here."""
        self.peer.say(**{f"{what}{self.rank}": True})
        self.peer.hear(f"{what}{1 - self.rank}")


def collectives(rank: Rank) -> None:
    """Sums of several sizes, a broadcast, a send and a receive."""
    for length in (2, 1000, 1 << 20):
        rank.peer.say(**{f"allreduce {length}": rank.works(length)})
    x = rank.cupy.full(1000, rank.rank + 5, dtype="uint8")
    rank.communicator.broadcast(x.data.ptr, x.data.ptr, 1000, BYTES, 1, rank.stream.ptr)
    rank.peer.say(broadcast=rank.ends(rank.recorded()) and bool((x == 6).all()))
    y = rank.cupy.zeros(1000, "uint8")
    if rank.rank == 0:
        rank.communicator.send(x.data.ptr, 1000, BYTES, 1, rank.stream.ptr)
    else:
        rank.communicator.recv(y.data.ptr, 1000, BYTES, 0, rank.stream.ptr)
    rank.peer.say(sent=rank.ends(rank.recorded()) and (rank.rank == 0 or bool((y == 6).all())))
    rank.together("done")
    rank.communicator.abort()


def lone_abort(rank: Rank) -> None:
    """Rank 0 starts what rank 1 never does, and aborts it; then both connect anew."""
    rank.peer.say(before=rank.works())
    if rank.rank == 0:
        _, event = rank.allreduce()
        rank.peer.say(waited=not rank.ends(event, 0.5))
        rank.peer.say(error=str(async_error(rank.communicator, rank.nccl)))
        rank.communicator.abort()
        rank.peer.say(freed=rank.ends(event))
    else:
        rank.peer.hear("freed")
        rank.communicator.abort()
    rank.peer.say(alive=float(rank.cupy.ones(10).sum()))
    rank.communicator = rank.connect()
    rank.peer.say(after=rank.works())
    rank.together("done")
    rank.communicator.abort()


def peer_dies(rank: Rank) -> None:
    """Rank 1 is gone, and rank 0 starts a collective with it."""
    rank.peer.say(before=rank.works())
    rank.together("ready")
    if rank.rank == 1:
        if rank.peer.dies:
            os._exit(9)
        return
    _, event = rank.allreduce()
    errors: list[Exception] = []
    limit = time.monotonic() + PATIENCE_S / 2

    def is_over() -> bool:
        error = async_error(rank.communicator, rank.nccl)
        errors.extend([] if error is None else [error])
        return bool(errors) or event.done or time.monotonic() > limit

    wait_until(is_over)
    rank.peer.say(error=f"{type(errors[0]).__name__}: {errors[0]}" if errors else None)
    rank.communicator.abort()
    rank.peer.say(freed=rank.ends(event))
    rank.peer.say(alive=float(rank.cupy.ones(10).sum()))


def memory_is_freed_while_a_peer_waits(rank: Rank) -> None:
    """Rank 0's kernel waits on the GPU; rank 1 gives memory back to the device, and then joins."""
    rank.peer.say(before=rank.works())
    if rank.rank == 1:
        rank.peer.hear("started")
        for _ in range(10):
            rank.cupy.empty(1 << 22, "uint8")
            rank.cupy.get_default_memory_pool().free_all_blocks()
        rank.peer.say(freed=True)
    y, event = rank.allreduce()
    if rank.rank == 0:
        rank.peer.say(started=True)
    rank.peer.say(ended=rank.ends(event) and bool((y == 3).all()))
    rank.together("done")
    rank.communicator.abort()


def notes(rank: int, peer: Any) -> None:
    """Nothing but notes, to see that they arrive; then rank 1 is gone, and rank 0 hears of it."""
    peer.say(**{f"from {rank}": rank})
    peer.say(heard=peer.hear(f"from {1 - rank}"))
    if rank == 0:
        try:
            peer.hear("more")
        except EOFError as reason:
            peer.say(end=str(reason))


SCENES = {
    scene.__name__: scene
    for scene in (collectives, lone_abort, peer_dies, memory_is_freed_while_a_peer_waits)
}


def main() -> None:
    """One rank of a scene, or both in one process."""
    name, deadline_s, which = sys.argv[1:]
    until_deadline(float(deadline_s))
    if name == "notes":
        notes(int(which), ByPipes())
        return
    with machine() as cupy:
        if which == "both":
            lanes: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue(), queue.SimpleQueue()]
            peers = [ByQueues(lanes[0], lanes[1]), ByQueues(lanes[1], lanes[0])]
            ranks = [
                threading.Thread(target=lambda n: SCENES[name](Rank(cupy, n, peers[n])), args=(number,))
                for number in range(2)
            ]
            for thread in ranks:
                thread.start()
            for thread in ranks:
                thread.join()
        else:
            SCENES[name](Rank(cupy, int(which), ByPipes()))
        say(finished=which)
        os._exit(0)


if __name__ == "__main__":
    main()
