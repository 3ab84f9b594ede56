/* NCCL's functions; nccl_double.h says what they promise. */

#define _GNU_SOURCE
#include "nccl_double.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char *const STATUS_NAMES[NUM_STATUSES] = {"no error",
                                                       "a CUDA call failed",
                                                       "a system call failed",
                                                       "an error inside of NCCL",
                                                       "an invalid argument",
                                                       "an invalid usage",
                                                       "a remote error",
                                                       "still in progress",
                                                       "timed out"};

/* ---- Communicators ---- */

EXPORT ncclResult_t ncclGetVersion(int *result)
{
    *result = ordered_version();
    return enter(F_GetVersion, mine.rank - 1);
}

EXPORT const char *ncclGetErrorString(ncclResult_t status)
{
    enter(F_GetErrorString, mine.rank - 1);
    return status >= 0 && status < NUM_STATUSES ? STATUS_NAMES[status] : "no such status";
}

EXPORT const char *ncclGetLastError(ncclComm_t handle)
{
    static _Thread_local char text[LINE_SIZE];
    (void)handle;
    enter(F_GetLastError, mine.rank - 1);
    last_complaint(text);
    return text;
}

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static atomic_ullong ids;
    ncclResult_t status = enter(F_GetUniqueId, mine.rank - 1);
    if (status != SUCCESS)
        return status;
    if (getrandom(id, sizeof *id, 0) != (ssize_t)sizeof *id)
        return SYSTEM_ERROR;
    uint64_t serial = atomic_fetch_add(&ids, 1) + 1;
    memcpy(id, &serial, sizeof serial); /* no two are the same, whatever the random bytes say */
    new_clique(id, 0);
    return SUCCESS;
}

static ncclResult_t status_of_devices(const Clique *clique)
{
    const char *shared = getenv("NCCL_MULTI_RANK_GPU_ENABLE"); /* of NCCL 2.30 and later */
    if (shared != NULL && strcmp(shared, "1") == 0)
        return SUCCESS;
    for (int one = 0; one < clique->nranks; one++)
        for (int two = one + 1; two < clique->nranks; two++)
            if (clique->members[one]->device == clique->members[two]->device) {
                complain("ranks %d and %d are both on device %d", one, two, clique->members[one]->device);
                return INVALID_USAGE;
            }
    return SUCCESS;
}

/* Wait until all ranks have come; the clique's lock is held. */
static ncclResult_t join(Clique *clique, Comm *comm, int nranks)
{
    if (clique->nranks == 0) {
        clique->nranks = nranks;
        clique->members = allocate((size_t)nranks * sizeof(Comm *));
    }
    while (is_stalled(comm->rank) && !clique->failed)
        wait_for_change(clique);
    if (clique->failed)
        return clique->failed;
    if (clique->nranks != nranks || clique->members[comm->rank] != NULL) {
        complain("rank %d of %d cannot join: %s", comm->rank, nranks,
                 clique->nranks != nranks ? "others gave another number of ranks"
                                          : "that rank has come before");
        return INVALID_USAGE;
    }
    clique->members[comm->rank] = comm;
    if (++clique->joined == nranks)
        settle(clique, status_of_devices(clique));
    while (!clique->formed && !clique->failed)
        wait_for_change(clique);
    return clique->failed;
}

static ncclResult_t init(enum Function function, ncclComm_t *made, int nranks, const ncclUniqueId *id, int rank)
{
    *made = NULL;
    if (rank >= 0 && rank < MAX_RANKS)
        mine.rank = rank + 1;
    ncclResult_t status = enter(function, rank);
    if (status != SUCCESS)
        return failing(status);
    if (nranks < 1 || nranks > MAX_RANKS || rank < 0 || rank >= nranks) {
        complain("%s: rank %d of %d; the double has 1 to %d ranks", FUNCTION_NAMES[function], rank, nranks,
                 MAX_RANKS);
        return failing(INVALID_ARGUMENT);
    }
    if (mine.depth > 0) {
        complain("%s in a group: the double does not do that", FUNCTION_NAMES[function]);
        return failing(INVALID_USAGE);
    }
    Clique *clique = clique_of(id);
    if (clique == NULL) {
        complain("%s: the unique id was used before, or never given out", FUNCTION_NAMES[function]);
        return INVALID_ARGUMENT;
    }
    Comm *comm = new_comm(clique, nranks, rank, rank, device_for(rank));
    pthread_mutex_lock(&clique->lock);
    status = join(clique, comm, nranks);
    pthread_mutex_unlock(&clique->lock);
    drop_clique(clique);
    if (status == SUCCESS)
        *made = enlist(comm);
    else
        release(comm);
    return status;
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *made, int nranks, ncclUniqueId id, int rank)
{
    return init(F_CommInitRank, made, nranks, &id, rank);
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *made, int nranks, ncclUniqueId id, int rank,
                                           void *config)
{
    (void)config;
    return init(F_CommInitRankConfig, made, nranks, &id, rank);
}

EXPORT ncclResult_t ncclCommInitAll(ncclComm_t *made, int count, const int *devlist)
{
    (void)made, (void)count, (void)devlist;
    complain("CommInitAll: the double does not have it, and cupy holds the GIL in it");
    ncclResult_t status = enter(F_CommInitAll, mine.rank - 1);
    return status ? status : INVALID_USAGE;
}

/* A split is a collective like the others, whose result the caller waits for. */
EXPORT ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t *made, void *config)
{
    ncclResult_t status;
    Comm *comm = acquire(handle, F_CommSplit, &status);
    (void)config;
    *made = NULL;
    if (status == SUCCESS && mine.depth > 0) {
        complain("CommSplit in a group: the double does not do that");
        status = INVALID_USAGE;
    } else if (status == SUCCESS && color < -1) {
        complain("rank %d CommSplit: the color is %d", comm->rank, color);
        status = INVALID_ARGUMENT;
    }
    if (status != SUCCESS) {
        if (comm != NULL)
            release(comm);
        return failing(status);
    }
    Op *op = allocate(sizeof *op);
    *op = (Op){.comm = comm, .kind = SPLIT, .dtype = -1, .op = -1, .root = -1, .peer = -1};
    op->color = color;
    op->key = key;
    Unit *unit = units_of(op);
    number(unit);
    begin(unit);
    pthread_mutex_lock(&comm->clique->lock);
    wait_for_end(comm->clique, op);
    status = op->state == DONE ? SUCCESS : op->status ? op->status : INTERNAL_ERROR;
    pthread_mutex_unlock(&comm->clique->lock);
    if (op->made != NULL)
        *made = enlist(op->made);
    end(unit);
    return status;
}

/* Wait for all that was launched; the clique's lock is held. */
static void flush(Comm *comm)
{
    while (comm->queued > 0 && !comm->gone)
        wait_for_change(comm->clique);
}

void abort_comm(Comm *comm)
{
    pthread_mutex_lock(&comm->clique->lock);
    comm->gone = comm->clique->left = true;
    withdraw(comm->clique, comm);
    pthread_cond_broadcast(&comm->clique->changed);
    pthread_mutex_unlock(&comm->clique->lock);
    delist(comm);
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t handle)
{
    ncclResult_t status;
    Comm *comm = acquire(handle, F_CommAbort, &status);
    if (status == SUCCESS)
        abort_comm(comm);
    if (comm != NULL)
        release(comm);
    return status;
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t handle)
{
    ncclResult_t status;
    Comm *comm = acquire(handle, F_CommFinalize, &status);
    if (status == SUCCESS) {
        pthread_mutex_lock(&comm->clique->lock);
        flush(comm);
        pthread_mutex_unlock(&comm->clique->lock);
    }
    if (comm != NULL)
        release(comm);
    return status;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t handle)
{
    ncclResult_t status;
    Comm *comm = acquire(handle, F_CommDestroy, &status);
    if (status == SUCCESS) {
        pthread_mutex_lock(&comm->clique->lock);
        flush(comm);
        comm->gone = comm->clique->left = true;
        pthread_mutex_unlock(&comm->clique->lock);
        delist(comm);
    }
    if (comm != NULL)
        release(comm);
    return status;
}

/* The functions that only read a communicator. */
#define READER(NAME, EXPRESSION)                                                                               \
    EXPORT ncclResult_t nccl##NAME(ncclComm_t handle, int *result)                                             \
    {                                                                                                          \
        ncclResult_t status;                                                                                   \
        Comm *comm = acquire(handle, F_##NAME, &status);                                                       \
        if (status == SUCCESS) {                                                                               \
            pthread_mutex_lock(&comm->clique->lock);                                                           \
            *result = EXPRESSION;                                                                              \
            pthread_mutex_unlock(&comm->clique->lock);                                                         \
        }                                                                                                      \
        if (comm != NULL)                                                                                      \
            release(comm);                                                                                     \
        return status;                                                                                         \
    }
READER(CommCount, comm->clique->nranks)
READER(CommUserRank, comm->rank)
READER(CommCuDevice, comm->device)
READER(CommGetAsyncError, comm->error)

/* ---- Groups and operations ---- */

EXPORT ncclResult_t ncclGroupStart(void)
{
    ncclResult_t status = enter(F_GroupStart, mine.rank - 1);
    if (status == SUCCESS)
        mine.depth++;
    return status;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t status = enter(F_GroupEnd, mine.rank - 1);
    if (mine.depth == 0) {
        complain("GroupEnd without a GroupStart");
        return status ? status : INVALID_USAGE;
    }
    failing(status);
    if (--mine.depth > 0)
        return status;
    Op *ops = mine.first;
    status = mine.error;
    mine.first = mine.last = NULL;
    mine.error = SUCCESS;
    if (status == SUCCESS)
        return launch(ops);
    for (Op *next; ops != NULL; ops = next) {
        next = ops->next;
        release(ops->comm);
        free(ops);
    }
    return status;
}

/* -1 stands for what a call does not have. */
static ncclResult_t call(enum Function function, enum Kind kind, const void *send, void *recv, size_t count,
                         int dtype, int op, int root, int peer, ncclComm_t comm, DiscoStream *stream)
{
    Op wanted = {.kind = kind, .send = send, .recv = recv, .count = count, .dtype = dtype, .stream = stream};
    wanted.op = op;
    wanted.root = root;
    wanted.peer = peer;
    return submit(function, comm, wanted);
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, int dtype, int op,
                                  ncclComm_t comm, DiscoStream *stream)
{
    return call(F_AllReduce, ALLREDUCE, send, recv, count, dtype, op, -1, -1, comm, stream);
}

EXPORT ncclResult_t ncclReduce(const void *send, void *recv, size_t count, int dtype, int op, int root,
                               ncclComm_t comm, DiscoStream *stream)
{
    return call(F_Reduce, REDUCE, send, recv, count, dtype, op, root, -1, comm, stream);
}

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, int dtype, int op,
                                      ncclComm_t comm, DiscoStream *stream)
{
    return call(F_ReduceScatter, REDUCESCATTER, send, recv, count, dtype, op, -1, -1, comm, stream);
}

EXPORT ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, int dtype, int root,
                                  ncclComm_t comm, DiscoStream *stream)
{
    return call(F_Broadcast, BROADCAST, send, recv, count, dtype, -1, root, -1, comm, stream);
}

EXPORT ncclResult_t ncclBcast(void *buffer, size_t count, int dtype, int root, ncclComm_t comm,
                              DiscoStream *stream)
{
    return call(F_Bcast, BROADCAST, buffer, buffer, count, dtype, -1, root, -1, comm, stream);
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, int dtype, ncclComm_t comm,
                                  DiscoStream *stream)
{
    return call(F_AllGather, ALLGATHER, send, recv, count, dtype, -1, -1, -1, comm, stream);
}

EXPORT ncclResult_t ncclSend(const void *send, size_t count, int dtype, int peer, ncclComm_t comm,
                             DiscoStream *stream)
{
    return call(F_Send, SEND, send, NULL, count, dtype, -1, -1, peer, comm, stream);
}

EXPORT ncclResult_t ncclRecv(void *recv, size_t count, int dtype, int peer, ncclComm_t comm,
                             DiscoStream *stream)
{
    return call(F_Recv, RECV, NULL, recv, count, dtype, -1, -1, peer, comm, stream);
}
