/* Cliques and communicators: who is alive, and who refers to them. */

#include "nccl_double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local Thread mine;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the four, and all references */
static Clique *cliques;
static Comm *comms;
static uintptr_t last_handle, forgotten_handles; /* up to here a reset took them back */

void *allocate(size_t nbytes)
{
    void *memory = calloc(1, nbytes ? nbytes : 1);
    if (memory == NULL) {
        fprintf(stderr, "the double of NCCL: no memory for %zu bytes\n", nbytes);
        abort();
    }
    return memory;
}

/* One whose ranks come with an open id, or, without an id, one whose `nranks` are there. Its first reference
 * is the open id's, or the caller's: an order for all cliques may find it as soon as it is in the list. */
Clique *new_clique(const ncclUniqueId *id, int nranks)
{
    Clique *clique = allocate(sizeof *clique);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&clique->lock, NULL);
    pthread_cond_init(&clique->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    clique->refs = 1;
    clique->open = id != NULL;
    if (clique->open)
        clique->id = *id;
    clique->formed = !clique->open;
    clique->nranks = clique->joined = nranks;
    pthread_mutex_lock(&lock);
    clique->next = cliques;
    cliques = clique;
    pthread_mutex_unlock(&lock);
    return clique;
}

/* That of an open id, with a reference; NULL if there is none. */
Clique *clique_of(const ncclUniqueId *id)
{
    pthread_mutex_lock(&lock);
    Clique *clique = cliques;
    while (clique != NULL && !(clique->open && memcmp(&clique->id, id, sizeof *id) == 0))
        clique = clique->next;
    if (clique != NULL)
        clique->refs++;
    pthread_mutex_unlock(&lock);
    return clique;
}

static void drop_clique_locked(Clique *clique)
{
    if (--clique->refs > 0)
        return;
    Clique **place = &cliques;
    while (*place != clique)
        place = &(*place)->next;
    *place = clique->next;
    pthread_mutex_destroy(&clique->lock);
    pthread_cond_destroy(&clique->changed);
    free(clique->members);
    free(clique);
}

void drop_clique(Clique *clique)
{
    pthread_mutex_lock(&lock);
    drop_clique_locked(clique);
    pthread_mutex_unlock(&lock);
}

/* It is formed, or never will be: everybody wakes, and the id is used up. Its lock is held. */
void settle(Clique *clique, ncclResult_t status)
{
    if (clique->formed || clique->failed)
        return;
    clique->formed = status == SUCCESS;
    clique->failed = status;
    pthread_cond_broadcast(&clique->changed);
    pthread_mutex_lock(&lock);
    clique->open = false;
    drop_clique_locked(clique);
    pthread_mutex_unlock(&lock);
}

/* Call `each` for every clique, under its lock, and wake who waits in it. */
void for_all_cliques(void (*each)(Clique *clique, ncclResult_t status), ncclResult_t status)
{
    size_t count = 0, i = 0;
    pthread_mutex_lock(&lock);
    for (Clique *clique = cliques; clique != NULL; clique = clique->next)
        count++;
    Clique **all = allocate(count * sizeof *all);
    for (Clique *clique = cliques; clique != NULL; clique = clique->next) {
        clique->refs++;
        all[i++] = clique;
    }
    pthread_mutex_unlock(&lock);
    for (i = 0; i < count; i++) {
        pthread_mutex_lock(&all[i]->lock);
        each(all[i], status);
        pthread_cond_broadcast(&all[i]->changed);
        pthread_mutex_unlock(&all[i]->lock);
        drop_clique(all[i]);
    }
    free(all);
}

/* Return when something has changed in the clique, whose lock is held. */
void wait_for_change(Clique *clique)
{
    atomic_fetch_add(&waiting, 1);
    pthread_cond_wait(&clique->changed, &clique->lock);
    atomic_fetch_sub(&waiting, 1);
}

/* A communicator that is not alive yet; its one reference is the caller's. */
Comm *new_comm(Clique *clique, int nranks, int rank, int world_rank, int device)
{
    Comm *comm = allocate(sizeof *comm + 2 * (size_t)nranks * sizeof comm->transfers[0]);
    comm->refs = 1;
    comm->clique = clique;
    comm->rank = rank;
    comm->world_rank = world_rank;
    comm->device = device;
    pthread_mutex_lock(&lock);
    clique->refs++;
    pthread_mutex_unlock(&lock);
    return comm;
}

/* From now on it is alive, which takes the caller's reference over. */
ncclComm_t enlist(Comm *comm)
{
    pthread_mutex_lock(&lock);
    uintptr_t handle = comm->handle = last_handle += 16;
    comm->next = comms;
    comms = comm;
    atomic_fetch_add(&alive, 1);
    pthread_mutex_unlock(&lock);
    return (ncclComm_t)handle;
}

static void release_locked(Comm *comm)
{
    if (--comm->refs > 0)
        return;
    drop_clique_locked(comm->clique);
    free(comm);
}

void release(Comm *comm)
{
    pthread_mutex_lock(&lock);
    release_locked(comm);
    pthread_mutex_unlock(&lock);
}

/* It is alive no more. Of two threads that end it at once, one does it. */
void delist(Comm *comm)
{
    pthread_mutex_lock(&lock);
    Comm **place = &comms;
    while (*place != NULL && *place != comm)
        place = &(*place)->next;
    if (*place != NULL) {
        *place = comm->next;
        atomic_fetch_sub(&alive, 1);
        release_locked(comm);
    }
    pthread_mutex_unlock(&lock);
}

/* The living communicator of a handle, with a reference for the caller, NULL if there is none. The call is
 * counted; `status` says whether it goes on. Handles are numbers to look up: use of one whose communicator
 * has ended is a mistake that a test has to see, not a crash. */
Comm *acquire(ncclComm_t handle, enum Function function, ncclResult_t *status)
{
    pthread_mutex_lock(&lock);
    bool forgotten = handle != NULL && (uintptr_t)handle <= forgotten_handles;
    Comm *comm = comms;
    while (comm != NULL && comm->handle != (uintptr_t)handle)
        comm = comm->next;
    if (comm != NULL) {
        comm->refs++;
        mine.rank = comm->world_rank + 1;
    }
    pthread_mutex_unlock(&lock);
    *status = enter(function, mine.rank - 1);
    if (comm == NULL && *status == SUCCESS)
        *status = INVALID_ARGUMENT;
    if (comm == NULL && !forgotten) /* what a test before a reset left behind may still end its own */
        complain("%s was called on a communicator that is gone", FUNCTION_NAMES[function]);
    return comm;
}

/* The living communicators of `world_rank`, of all if it is negative, each with a reference, then NULL. The
 * caller frees the list. */
Comm **living(int world_rank)
{
    size_t count = 0;
    pthread_mutex_lock(&lock);
    for (Comm *comm = comms; comm != NULL; comm = comm->next)
        count++;
    Comm **found = allocate((count + 1) * sizeof *found), **place = found;
    for (Comm *comm = comms; comm != NULL; comm = comm->next)
        if (world_rank < 0 || comm->world_rank == world_rank) {
            comm->refs++;
            *place++ = comm;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

void forget_handles(void)
{
    pthread_mutex_lock(&lock);
    forgotten_handles = last_handle;
    pthread_mutex_unlock(&lock);
}
