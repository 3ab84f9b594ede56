/* From a call to its work on a stream. */

#include "nccl_double.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* All of a unit's operations come to their meetings. */
void begin(Unit *unit)
{
    Comm *comm = unit->ops->comm;
    Clique *clique = comm->clique;
    unsigned us = ordered_delay_us(comm->world_rank, unit->ops->number);
    pthread_mutex_lock(&clique->lock);
    if (us) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        uint64_t ns = (uint64_t)until.tv_nsec + 1000ull * us;
        until.tv_sec += (time_t)(ns / 1000000000u);
        until.tv_nsec = (long)(ns % 1000000000u);
        while (!comm->gone && pthread_cond_timedwait(&clique->changed, &clique->lock, &until) != ETIMEDOUT)
            ;
    }
    for (Op *op = unit->ops; op != NULL; op = op->next)
        if (comm->gone)
            op->state = WITHDRAWN;
        else
            attend(clique, op);
    pthread_mutex_unlock(&clique->lock);
}

/* Wait until each is done or taken back, and free the unit. */
void end(Unit *unit)
{
    Comm *comm = unit->ops->comm;
    Clique *clique = comm->clique;
    pthread_mutex_lock(&clique->lock);
    for (Op *op = unit->ops; op != NULL; op = op->next)
        wait_for_end(clique, op);
    comm->queued--;
    pthread_cond_broadcast(&clique->changed); /* a destroy may wait for it */
    pthread_mutex_unlock(&clique->lock);
    for (Op *op = unit->ops, *next; op != NULL; op = next) {
        next = op->next;
        release(op->comm);
        free(op);
    }
    atomic_fetch_sub(&in_flight, unit->count);
    free(unit);
}

/* What a stream runs. */
static void run(void *unit)
{
    begin(unit);
    end(unit);
}

/* Each operation gets its number now, in the order of the calls: streams may run them in another one. */
void number(Unit *unit)
{
    Comm *comm = unit->ops->comm;
    pthread_mutex_lock(&comm->clique->lock);
    comm->queued++;
    for (Op *op = unit->ops; op != NULL; op = op->next) {
        bool receives = op->kind == RECV;
        uint64_t *counter = &comm->collectives;
        if (op->peer >= 0)
            counter = &comm->transfers[op->peer + (receives ? comm->clique->nranks : 0)];
        op->number = ++*counter;
    }
    pthread_mutex_unlock(&comm->clique->lock);
    atomic_fetch_add(&in_flight, unit->count);
}

/* One unit for each communicator and stream, in order of their first operation. Takes the operations over. */
Unit *units_of(Op *op)
{
    Unit *units = NULL;
    for (Op *next; op != NULL; op = next) {
        Unit **place = &units;
        next = op->next;
        op->next = NULL;
        while (*place != NULL && ((*place)->ops->comm != op->comm || (*place)->ops->stream != op->stream))
            place = &(*place)->next;
        if (*place == NULL)
            *place = allocate(sizeof **place);
        Op **last = &(*place)->ops;
        while (*last != NULL)
            last = &(*last)->next;
        *last = op;
        (*place)->count++;
    }
    return units;
}

ncclResult_t launch(Op *ops)
{
    ncclResult_t status = SUCCESS;
    Unit *units = units_of(ops), *inline_units = NULL, **last = &inline_units;
    for (Unit *unit = units; unit != NULL; unit = unit->next)
        number(unit);
    for (Unit *unit = units, *next; unit != NULL; unit = next) {
        DiscoStream *stream = unit->ops->stream;
        next = unit->next;
        unit->next = NULL;
        if (stream == NULL) {
            *last = unit;
            last = &unit->next;
        } else if (stream->enqueue(stream, run, unit) != 0) {
            for (Op *op = unit->ops; op != NULL; op = op->next)
                op->state = WITHDRAWN;
            end(unit);
            status = CUDA_ERROR;
        }
    }
    /* All begin before one is waited for: a thread may drive several ranks. */
    for (Unit *unit = inline_units; unit != NULL; unit = unit->next)
        begin(unit);
    for (Unit *unit = inline_units, *next; unit != NULL; unit = next) {
        next = unit->next;
        end(unit);
    }
    return status;
}

/* A call inside of a group failed: so does the group, and nothing of it is launched. */
ncclResult_t failing(ncclResult_t status)
{
    if (mine.depth > 0 && mine.error == SUCCESS)
        mine.error = status;
    return status;
}

ncclResult_t submit(enum Function function, ncclComm_t handle, Op wanted)
{
    ncclResult_t status;
    Comm *comm = acquire(handle, function, &status);
    wanted.comm = comm;
    if (status == SUCCESS && wanted.stream == NULL)
        wanted.stream = null_stream_of(comm->device);
    if (status == SUCCESS) {
        const char *fault = fault_of(&wanted);
        if (fault != NULL) {
            complain("rank %d %s: %s", comm->rank, FUNCTION_NAMES[function], fault);
            status = INVALID_ARGUMENT;
        } else if (wanted.stream != NULL && wanted.stream->device >= 0 && wanted.stream->device != comm->device) {
            complain("rank %d %s: a stream of device %d, and a communicator of device %d", comm->rank,
                     FUNCTION_NAMES[function], wanted.stream->device, comm->device);
            status = CUDA_ERROR;
        } else {
            pthread_mutex_lock(&comm->clique->lock);
            status = comm->error;
            pthread_mutex_unlock(&comm->clique->lock);
        }
    }
    if (status != SUCCESS) {
        if (comm != NULL)
            release(comm);
        return failing(status);
    }
    Op *op = allocate(sizeof *op);
    *op = wanted;
    if (mine.depth == 0)
        return launch(op);
    if (mine.first == NULL)
        mine.first = op;
    else
        mine.last->next = op;
    mine.last = op;
    return SUCCESS;
}
