/* A double of libnccl.so.2 for machines without a GPU: the same functions over host memory. Ranks are threads
 * of one process. `nccl.py` compiles and loads it, and wraps the functions disco_nccl_*, which order faults.
 *
 *   ncclAllReduce ... -> an Op of the thread's open group -> when it ends, a Unit per (communicator, stream)
 *   a Unit, on its stream's thread: each Op attends its Meeting; who comes last moves everybody's data
 *
 *   nccl.c             NCCL's own functions
 *   nccl_units.c       from a call to its work on a stream
 *   nccl_meetings.c    who waits for whom; what each operation moves
 *   nccl_arithmetic.c  reductions, and the small floating-point formats
 *   nccl_members.c     cliques and communicators: who is alive, who refers to them
 *   nccl_orders.c      faults to order, counters, mistakes
 *
 * What callers may rely on:
 *   - A call outside of a group queues its work and returns. Stream NULL is the null stream of the
 *     communicator's GPU. Where no simulated GPUs are, work on it is done when the call returns.
 *   - The n-th collective of a rank meets the n-th of all others, the n-th send of a pair its n-th receive.
 *     If they differ, nobody's data is moved, ever: the members get an asynchronous error, and wait for their
 *     abort.
 *   - Every result is folded in order of the ranks, so that it is the same, to the bit, on all of them.
 *   - After ncclCommAbort has returned, that rank's buffers are not touched any more. What they hold is
 *     undefined, and made visibly so (see `withdraw`).
 *   - A communicator belongs to the GPU that is current where it is made, and works on streams of that GPU
 *     only. Where no simulated GPUs are, its rank says which GPU that is.
 *   - Handles and unique ids never come back: use of a communicator that is gone is noticed and does nothing.
 *
 * What NCCL does and no test over the double can see; most of it waits for a machine with several GPUs:
 *   - A collective waits on the GPU: who allocates memory or loads a kernel meanwhile may wait for it. So may
 *     an abort, which frees memory, for kernels of other communicators.
 *   - The first collectives connect the ranks, in threads of NCCL's own, within GroupEnd; it may take seconds.
 *   - Sums of floating-point numbers depend on the algorithm, so on lengths and on how GPUs are connected.
 *   - Rings, trees and protocols have limits of their own; here every count and every alignment is alike.
 *   - A group over several communicators changes the thread's GPU, and changes it back unless it fails.
 *   - That a Reduce takes NULL where a rank receives nothing, that a rank may send to itself, and that a group
 *     may have a Reduce for each root is what NVIDIA documents; here it is so because we wrote it.
 *   - A rank that could not split leaves the others in their split until it aborts the communicator: that closes
 *     the connections over which they learn of each other's colors, and each fails. So it is here. It was read
 *     in NCCL's source (bootstrap.cc), not tried. Past that exchange the others wait for ever.
 *
 * What the code relies on: the locks of members and orders are the innermost ones. Who holds a clique's lock
 * may take one of them, never the other way round, and no lock is held while a stream's `enqueue` runs. Data
 * is moved under the clique's lock, so that an abort, which takes it too, cannot return while a peer still
 * reads the buffers. */

#ifndef NCCL_DOUBLE_H
#define NCCL_DOUBLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default"))) /* all else stays inside of the library */

/* ---- The public interface ---- */

enum {
    SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR,
    IN_PROGRESS, TIMED_OUT, NUM_STATUSES
};
enum { SUM, PROD, MAX, MIN, AVG, NUM_OPS };
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16, E4M3, E5M2, NUM_TYPES };

typedef int ncclResult_t; /* in C's ABI the real header's enumerations are integers */
typedef void *ncclComm_t; /* never an address: the serial number of a communicator, see `acquire` */
typedef struct {
    char internal[128];
} ncclUniqueId;

/* What stands for a cudaStream_t. `enqueue` calls work(argument) later, after all that was enqueued before. */
typedef struct DiscoStream {
    int (*enqueue)(struct DiscoStream *self, void (*work)(void *argument), void *argument);
    int device; /* -1: any */
} DiscoStream;

#define FUNCTIONS(X)                                                                                          \
    X(AllGather) X(AllReduce) X(Bcast) X(Broadcast) X(CommAbort) X(CommCount) X(CommCuDevice) X(CommDestroy)  \
    X(CommFinalize) X(CommGetAsyncError) X(CommInitAll) X(CommInitRank) X(CommInitRankConfig) X(CommSplit)    \
    X(CommUserRank) X(GetErrorString) X(GetLastError) X(GetUniqueId) X(GetVersion) X(GroupEnd) X(GroupStart)  \
    X(Recv) X(Reduce) X(ReduceScatter) X(Send)
#define AS_CONSTANT(name) F_##name,
enum Function { FUNCTIONS(AS_CONSTANT) NUM_FUNCTIONS };

enum { MAX_RANKS = 256, DEFAULT_VERSION = 22903, LINE_SIZE = 320 };

/* ---- What there is ---- */

typedef struct Comm Comm;
typedef struct Meeting Meeting;

/* The ranks that were made together. Its lock guards it, its members' marked fields, and all their meetings. */
typedef struct Clique {
    struct Clique *next; /* these four are guarded by the members' lock */
    int refs;            /* its members, who works on it, and its id while that is open */
    bool open;           /* the id was given out, and ranks may come with it */
    ncclUniqueId id;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* anything that a waiting thread may wait for */
    int nranks, joined;
    bool left;           /* a member has ended */
    bool formed;
    ncclResult_t failed; /* why it will never be formed */
    Comm **members;      /* while it is being formed: who has come, by rank */
    Meeting *meetings;
} Clique;

/* One rank's communicator. */
struct Comm {
    Comm *next; /* these two are guarded by the members' lock */
    int refs;   /* being alive, each operation in flight, each call under way */
    uintptr_t handle;
    Clique *clique;
    int rank;
    int world_rank, device; /* a split keeps them: orders name a worker, not its place in a group */
    /* Guarded by the clique's lock: */
    bool gone;
    ncclResult_t error;   /* what ncclCommGetAsyncError says; nothing is done for a communicator in error */
    int queued;           /* units that were launched and have not ended */
    uint64_t collectives; /* how many were launched */
    uint64_t transfers[]; /* how many to each rank, then how many from each rank */
};

enum Kind { ALLREDUCE, REDUCE, REDUCESCATTER, BROADCAST, ALLGATHER, SEND, RECV, SPLIT };

/* One call of one rank. Its unit owns it; `meeting`, `made` and `state` are guarded by the clique's lock. */
typedef struct Op {
    struct Op *next; /* in the open group, later in its unit */
    Comm *comm;
    DiscoStream *stream;
    enum Kind kind;
    const void *send;
    void *recv;
    size_t count;
    int dtype, op, root, peer; /* -1 where the call has none */
    int color, key;            /* of a split */
    Comm *made;                /* by a split */
    ncclResult_t status;       /* of a split that was taken back */
    uint64_t number;
    Meeting *meeting;
    enum { WAITING, DONE, WITHDRAWN } state;
} Op;

/* Calls that belong together: the n-th of all ranks, or the n-th send of one pair and its receive. */
struct Meeting {
    Meeting *next;
    uint64_t number;
    int source, target; /* -1 for collectives */
    int expected, arrived;
    bool spoiled; /* the calls do not fit */
    Op *ops[];    /* by rank; for a pair the send, then the receive */
};

/* The calls of one group on one communicator and stream: they run at once, none waits for another. */
typedef struct Unit {
    struct Unit *next;
    Op *ops;
    int count;
} Unit;

/* What a thread has between its calls. One thread makes all calls of a rank. */
typedef struct {
    int depth;
    ncclResult_t error; /* the first one since the outermost GroupStart */
    Op *first, *last;
    int rank; /* one more than the world rank of its last communicator; 0: none yet */
} Thread;
extern _Thread_local Thread mine;

/* ---- nccl_members.c ---- */

void *allocate(size_t nbytes);
Clique *new_clique(const ncclUniqueId *id, int nranks);
Clique *clique_of(const ncclUniqueId *id);
void drop_clique(Clique *clique);
void settle(Clique *clique, ncclResult_t status);
void for_all_cliques(void (*each)(Clique *clique, ncclResult_t status), ncclResult_t status);
void wait_for_change(Clique *clique);
Comm *new_comm(Clique *clique, int nranks, int rank, int world_rank, int device);
ncclComm_t enlist(Comm *comm);
void delist(Comm *comm);
void release(Comm *comm);
Comm *acquire(ncclComm_t handle, enum Function function, ncclResult_t *status);
Comm **living(int world_rank);
void forget_handles(void);

/* ---- nccl_arithmetic.c ---- */

extern const size_t TYPE_NBYTES[NUM_TYPES];
char *folded(Op *const *ops, int nranks, size_t count);

/* ---- nccl_meetings.c ---- */

const char *fault_of(const Op *op);
void attend(Clique *clique, Op *op);
void wait_for_end(Clique *clique, Op *op);
void withdraw(Clique *clique, const Comm *comm);

/* ---- nccl_units.c ---- */

Unit *units_of(Op *ops);
void number(Unit *unit);
void begin(Unit *unit);
void end(Unit *unit);
ncclResult_t launch(Op *ops);
ncclResult_t failing(ncclResult_t status);
ncclResult_t submit(enum Function function, ncclComm_t handle, Op wanted);

/* ---- nccl_orders.c ---- */

extern const char *const FUNCTION_NAMES[];
extern atomic_int alive, in_flight, waiting; /* communicators, operations, threads */
ncclResult_t enter(enum Function function, int world_rank);
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);
bool is_stalled(int world_rank);
int device_for(int world_rank);
DiscoStream *null_stream_of(int device);
int ordered_version(void);
unsigned ordered_delay_us(int world_rank, uint64_t number);
void last_complaint(char *text);
void abort_comm(Comm *comm);

#endif
