/* Who waits for whom, and what each operation reads, moves and writes. */

#include "nccl_double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t nbytes_of(const Op *op) { return op->kind == SPLIT ? 0 : op->count * TYPE_NBYTES[op->dtype]; }

static size_t nbytes_read(const Op *op)
{
    bool idle = op->kind == RECV || (op->kind == BROADCAST && op->comm->rank != op->root);
    return idle ? 0 : nbytes_of(op) * (size_t)(op->kind == REDUCESCATTER ? op->comm->clique->nranks : 1);
}

static size_t nbytes_written(const Op *op)
{
    bool idle = op->kind == SEND || (op->kind == REDUCE && op->comm->rank != op->root);
    return idle ? 0 : nbytes_of(op) * (size_t)(op->kind == ALLGATHER ? op->comm->clique->nranks : 1);
}

/* The two may be one memory in one way only, and may not overlap in any other. */
static bool overlaps_badly(const Op *op)
{
    uintptr_t send = (uintptr_t)op->send, recv = (uintptr_t)op->recv,
              shift = (uintptr_t)op->comm->rank * nbytes_of(op);
    size_t read = nbytes_read(op), written = nbytes_written(op);
    if (read == 0 || written == 0 || send + read <= recv || recv + written <= send)
        return false;
    return op->kind == ALLGATHER       ? send != recv + shift
           : op->kind == REDUCESCATTER ? recv != send + shift
                                       : send != recv;
}

/* What is wrong with a call's arguments, or NULL. More is noticed here than by the real library, which reads
 * and writes wherever it is told to. */
const char *fault_of(const Op *op)
{
    int nranks = op->comm->clique->nranks;
    if (op->dtype < 0 || op->dtype >= NUM_TYPES)
        return "no such dtype";
    if (op->kind <= REDUCESCATTER && (op->op < 0 || op->op >= NUM_OPS))
        return "no such reduction";
    if ((op->kind == REDUCE || op->kind == BROADCAST) && (op->root < 0 || op->root >= nranks))
        return "the root is no rank";
    if ((op->kind == SEND || op->kind == RECV) && (op->peer < 0 || op->peer >= nranks))
        return "the peer is no rank";
    if (op->count > SIZE_MAX / 8 / (size_t)nranks)
        return "the count is too large";
    if ((op->send == NULL && nbytes_read(op)) || (op->recv == NULL && nbytes_written(op)))
        return "a buffer is NULL";
    if (((nbytes_read(op) ? (uintptr_t)op->send : 0) | (nbytes_written(op) ? (uintptr_t)op->recv : 0)) %
        TYPE_NBYTES[op->dtype])
        return "a buffer is not aligned to its elements";
    return overlaps_badly(op) ? "the buffers overlap, but not as they do in place" : NULL;
}

static void move(void *to, const void *from, size_t nbytes)
{
    if (nbytes && to != from)
        memmove(to, from, nbytes);
}

/* Everyone with the same color gets a communicator, in order of key, then of the former rank. */
static void split(Op *const *ops, int nranks)
{
    for (int rank = 0; rank < nranks; rank++) {
        Op *op = ops[rank];
        Clique *clique = NULL;
        int size = 0, place = 0;
        if (op->color < 0)
            continue;
        for (int other = 0; other < nranks; other++) {
            const Op *peer = ops[other];
            if (peer->color != op->color)
                continue;
            size++;
            place += peer->key < op->key || (peer->key == op->key && other < rank);
            if (peer->made != NULL)
                clique = peer->made->clique;
        }
        bool is_first = clique == NULL;
        if (is_first)
            clique = new_clique(NULL, size);
        op->made = new_comm(clique, size, place, op->comm->world_rank, op->comm->device);
        if (is_first) /* from now on its members keep it */
            drop_clique(clique);
    }
}

/* All have come, and fit. */
static void perform(Op *const *ops, int nranks)
{
    const Op *first = ops[0];
    size_t nbytes = nbytes_of(first);
    char *total;
    switch (first->kind) {
    case ALLREDUCE:
    case REDUCE:
        total = folded(ops, nranks, first->count);
        for (int rank = 0; rank < nranks; rank++)
            move(ops[rank]->recv, total, nbytes_written(ops[rank]));
        free(total);
        break;
    case REDUCESCATTER:
        total = folded(ops, nranks, first->count * (size_t)nranks);
        for (int rank = 0; rank < nranks; rank++)
            move(ops[rank]->recv, total + (size_t)rank * nbytes, nbytes);
        free(total);
        break;
    case BROADCAST:
        for (int rank = 0; rank < nranks; rank++)
            move(ops[rank]->recv, ops[first->root]->send, nbytes);
        break;
    case ALLGATHER:
        for (int to = 0; to < nranks; to++)
            for (int from = 0; from < nranks; from++)
                move((char *)ops[to]->recv + (size_t)from * nbytes, ops[from]->send, nbytes);
        break;
    case SEND:
    case RECV: move(ops[1]->recv, ops[0]->send, nbytes); break;
    case SPLIT: split(ops, nranks); break;
    }
}

/* ---- Meetings; the clique's lock is held ---- */

static const char *const TYPE_NAMES[] = {"int8",    "uint8",    "int32",       "uint32",
                                         "int64",   "uint64",   "float16",     "float32",
                                         "float64", "bfloat16", "float8_e4m3", "float8_e5m2"};
static const char *const OP_NAMES[] = {"sum", "prod", "max", "min", "avg"};
static const char *const KIND_NAMES[] = {"AllReduce", "Reduce", "ReduceScatter", "Broadcast",
                                         "AllGather", "Send",   "Recv",          "CommSplit"};

static void describe(const Op *op, char *text, size_t size)
{
    int used = snprintf(text, size, "rank %d %s", op->comm->rank, KIND_NAMES[op->kind]);
    if (op->kind != SPLIT)
        used += snprintf(text + used, size - (size_t)used, "(%zu x %s", op->count, TYPE_NAMES[op->dtype]);
    if (op->op >= 0)
        used += snprintf(text + used, size - (size_t)used, ", %s", OP_NAMES[op->op]);
    if (op->root >= 0)
        used += snprintf(text + used, size - (size_t)used, ", root %d", op->root);
    if (op->peer >= 0)
        used += snprintf(text + used, size - (size_t)used, ", peer %d", op->peer);
    if (op->kind != SPLIT)
        snprintf(text + used, size - (size_t)used, ")");
}

static bool fit(const Op *a, const Op *b)
{
    bool same_kind = a->kind == b->kind || a->peer >= 0; /* of a pair's two places each takes one kind */
    return same_kind && a->count == b->count && a->dtype == b->dtype && a->op == b->op && a->root == b->root;
}

static void unlink_meeting(Clique *clique, Meeting *meeting)
{
    Meeting **place = &clique->meetings;
    while (*place != meeting)
        place = &(*place)->next;
    *place = meeting->next;
    free(meeting);
}

/* Do the work if nothing is missing. Everyone who waits comes here whenever something changed: the last one
 * to arrive, and who notices that a stalled rank was released. */
static void try_to_complete(Clique *clique, Meeting *meeting)
{
    if (meeting->arrived < meeting->expected || meeting->spoiled)
        return;
    for (int i = 0; i < meeting->expected; i++) {
        const Comm *comm = meeting->ops[i]->comm;
        if (is_stalled(comm->world_rank) || comm->error != SUCCESS)
            return;
    }
    perform(meeting->ops, meeting->expected);
    for (int i = 0; i < meeting->expected; i++) {
        meeting->ops[i]->state = DONE;
        meeting->ops[i]->meeting = NULL;
    }
    unlink_meeting(clique, meeting);
    pthread_cond_broadcast(&clique->changed);
}

static Meeting *meeting_of(Clique *clique, const Op *op)
{
    int source = op->kind == SEND ? op->comm->rank : op->kind == RECV ? op->peer : -1;
    int target = op->kind == RECV ? op->comm->rank : op->kind == SEND ? op->peer : -1;
    int expected = source < 0 ? clique->nranks : 2;
    Meeting *meeting = clique->meetings;
    while (meeting != NULL &&
           (meeting->number != op->number || meeting->source != source || meeting->target != target))
        meeting = meeting->next;
    if (meeting == NULL) {
        meeting = allocate(sizeof *meeting + (size_t)expected * sizeof meeting->ops[0]);
        meeting->number = op->number;
        meeting->source = source;
        meeting->target = target;
        meeting->expected = expected;
        meeting->next = clique->meetings;
        clique->meetings = meeting;
    }
    return meeting;
}

void attend(Clique *clique, Op *op)
{
    if (op->kind == SPLIT && clique->left) {
        op->state = WITHDRAWN;
        op->status = REMOTE_ERROR;
        return;
    }
    Meeting *meeting = meeting_of(clique, op);
    const Op *other = NULL;
    for (int i = 0; i < meeting->expected && other == NULL; i++)
        other = meeting->ops[i];
    op->meeting = meeting;
    meeting->ops[meeting->source < 0 ? op->comm->rank : op->kind == RECV] = op;
    meeting->arrived++;
    if (other != NULL && !fit(op, other) && !meeting->spoiled) {
        char one[120], two[120];
        describe(other, one, sizeof one);
        describe(op, two, sizeof two);
        complain("operation %llu does not fit: %s, %s", (unsigned long long)op->number, one, two);
        meeting->spoiled = true;
    }
    for (int i = 0; i < meeting->expected && meeting->spoiled; i++)
        if (meeting->ops[i] != NULL)
            meeting->ops[i]->comm->error = INVALID_USAGE;
    try_to_complete(clique, meeting);
}

/* Return when it is done or was taken back. */
void wait_for_end(Clique *clique, Op *op)
{
    while (op->state == WAITING) {
        try_to_complete(clique, op->meeting);
        if (op->state == WAITING)
            wait_for_change(clique);
    }
}

/* An abort takes back what a rank has in its meetings, and the others' splits. A half of what would have been
 * written is spoiled: the real library leaves parts of results, and who reads them has to see it. */
void withdraw(Clique *clique, const Comm *comm)
{
    for (Meeting *meeting = clique->meetings, *next; meeting != NULL; meeting = next) {
        next = meeting->next;
        for (int i = 0; i < meeting->expected; i++) {
            Op *op = meeting->ops[i];
            if (op == NULL || (op->comm != comm && op->kind != SPLIT))
                continue;
            op->status = op->comm == comm ? INTERNAL_ERROR : REMOTE_ERROR;
            if (nbytes_written(op))
                memset(op->recv, 0xDB, (nbytes_written(op) + 1) / 2);
            op->state = WITHDRAWN;
            op->meeting = NULL;
            meeting->ops[i] = NULL;
            meeting->arrived--;
        }
        if (meeting->arrived == 0) /* who comes later waits in a new one: it lacks this rank for ever */
            unlink_meeting(clique, meeting);
    }
}
