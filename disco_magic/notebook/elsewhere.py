"""What things are called in other frameworks, for people who try their names here."""

from __future__ import annotations

from typing import Final

# Their names -> what to write here: those of PyTorch, JAX and mpi4py that no name here looks like.
_CALLED: Final = {
    ("psum", "all_reduce", "Allreduce", "iallreduce", "Iallreduce"): "allreduce(x)",
    ("pmean",): 'allreduce(x, "avg")',
    ("pmax",): 'allreduce(x, "max")',
    ("pmin",): 'allreduce(x, "min")',
    ("all_gather", "Allgather", "allgatherv", "Allgatherv"): "allgather(x)",
    ("all_to_all", "Alltoall"): "alltoall(x)",
    ("alltoallv", "Alltoallv"): "alltoall(x, counts=counts)",
    ("psum_scatter", "Reduce_scatter_block"): "reduce_scatter(x)",
    ("Reduce_scatter",): "reduce_scatter(x, counts=counts)",
    ("bcast", "Bcast", "ibcast"): "broadcast(x)",
    ("Gather", "gatherv", "Gatherv"): "gather(x)",
    ("Scatter",): "scatter(x)",
    ("scatterv", "Scatterv"): "scatter(x, counts=counts)",
    ("Reduce",): "reduce(x)",
    ("Send", "isend", "Isend", "Bsend", "Ibsend"): "send(x, to)",
    ("Recv", "irecv", "Irecv"): "recv(source)",
    ("ppermute", "sendrecv", "Sendrecv"): "send(x, to), then recv(source)",
    ("scan", "Scan"): "np.cumsum(allgather(x[None]), axis=0)[worker_id]",
    ("exscan", "Exscan"): "np.cumsum(allgather(x[None]), axis=0)[worker_id - 1]",
    ("Barrier",): "barrier()",
    ("Probe",): "probe(source)",
    ("Iprobe",): "iprobe(source)",
    ("new_group", "Split", "split", "Create_group"): "over=[0, 2], or a mesh and over='axis'",
}

_WAIT: Final = "collectives wait here, and send does not; a whole cell does not wait with --nowait"

ELSEWHERE: Final = {
    **dict.fromkeys(
        ("rank", "local_rank", "RANK", "WORLD_RANK", "Get_rank", "get_rank", "axis_index", "process_index"),
        "a worker's number is worker_id here",
    ),
    **dict.fromkeys(
        (
            *("world_size", "WORLD_SIZE", "nranks", "nprocs", "Get_size", "get_world_size"),
            *("process_count", "axis_size"),
        ),
        "the number of workers is num_workers here",
    ),
    **dict.fromkeys(
        ("comm", "dist", "MPI", "MPI_COMM_WORLD", "COMM_WORLD"),
        "collectives are functions here: allreduce(x), barrier(), ...; a worker's number is worker_id",
    ),
    "ray": "there are no tasks and no actors: every worker runs the cell, and in the notebook "
    "session.call_packed(f, x) calls f on workers (docs/coming_from.md)",
    **dict.fromkeys(
        ("current_rank", "message_rank"),
        "a worker's number is worker_id here, in a mesh also worker.coordinates",
    ),
    **dict.fromkeys(
        ("recv_object", "recv_objects", "recv_object_list"),
        "recv(source) receives what send_object sends, too",
    ),
    "ANY_SOURCE": "recv() and probe() take a message from any worker",
    "ANY_TAG": "a recv takes messages of one tag: send the kind along, send_object(('done', x), to)",
    **dict.fromkeys(("Ssend", "ssend"), "in a cell with --rendezvous, send(x, to) waits like that"),
    "PROC_NULL": "there is no worker that swallows messages: at the border, leave send and recv out",
    "Abort": "an error ends the cell on all workers that wait for this one: raise one",
    **dict.fromkeys(
        ("Create_cart", "Cart_create"), "%disco start --mesh dp=2,tp=4 names axes; over='tp' is along one"
    ),
    "current_size": "the number of workers is num_workers here",
    **dict.fromkeys(("Iscatter", "Igather", "Iallgather", "Ialltoall", "Ibarrier", "Waitall", "Wait"), _WAIT),
    **{name: f"it is {here} here" for names, here in _CALLED.items() for name in names},
}
"""Name in another framework -> what it is here, in words."""

KEYWORDS: Final = {
    **dict.fromkeys(("group", "comm", "axis_name"), "over='axis' or over=[0, 2] chooses who takes part"),
    **dict.fromkeys(("src", "root_rank"), "root= is the rank that has it"),
    **dict.fromkeys(("dst", "dest"), "to= of a send, root= of a reduce or gather"),
    **dict.fromkeys(("async_op", "sync_op"), "collectives wait; a whole cell does not, with --nowait"),
    **dict.fromkeys(("recvbuf", "recvobj", "output"), "out= is the array that takes the result"),
    **dict.fromkeys(("sendbuf", "sendobj", "tensor", "input"), "the array comes first, without a name"),
    "timeout": "a timeout is the cell's, %%disco --timeout 10, or that of a recv or probe",
    **dict.fromkeys(("sendcounts", "recvcounts", "split_sizes"), "counts= has the lengths of the parts"),
}
"""Keyword of another framework's collectives -> what there is here, in words."""

_COUNTS: Final = ("counts", "recvcounts")
_CHOOSING: Final = ("over", "group", "comm", "axis_name")
_ALONG: Final = "along an axis: {}"
OF_VERBS: Final = {
    "allgather": dict.fromkeys(_COUNTS, "lengths may differ, and need no counts"),
    "gather": dict.fromkeys(_COUNTS, "lengths may differ, and need no counts"),
    "send": {
        **dict.fromkeys(("dst", "dest", "target", "peer"), "to= is the worker that gets it"),
        **dict.fromkeys(_CHOOSING, _ALONG.format("send(x, worker.at(pp=1))")),
    },
    "recv": {
        **dict.fromkeys(("src", "peer"), "source= is the worker that sends it"),
        **dict.fromkeys(_CHOOSING, _ALONG.format("recv(worker.at(pp=0))")),
    },
    "probe": dict.fromkeys(("source", "src"), "sources= are the workers that may send it"),
}
"""Verb -> keyword that another framework has for it -> what there is here, in words."""
