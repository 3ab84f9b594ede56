/* What a test orders and asks: faults, counters, and the mistakes that were seen. `nccl.py` has it in Python.
 */

#include "nccl_double.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Fault {
    struct Fault *next;
    int function, rank, skip;
    ncclResult_t status;
} Fault;

typedef struct Line {
    struct Line *next;
    char text[LINE_SIZE];
} Line;

#define AS_STRING(name) #name,
const char *const FUNCTION_NAMES[] = {FUNCTIONS(AS_STRING)};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the four */
static Fault *faults;
static Line *mistakes, **end_of_mistakes = &mistakes;
static uint64_t calls[NUM_FUNCTIONS];

atomic_int alive, in_flight, waiting;
static atomic_int version = DEFAULT_VERSION;
static atomic_bool stalled[MAX_RANKS];
static atomic_int devices[MAX_RANKS]; /* one more than the device; 0: the calling thread's */
static int (*_Atomic device_of_thread)(void); /* NULL: the rank's number */
static DiscoStream *(*_Atomic null_stream)(int device);
static atomic_uint delay_us;
static atomic_ullong delay_seed;

/* ---- For the rest of the double ---- */

/* Count a call. Returns the status that was ordered for it. */
ncclResult_t enter(enum Function function, int world_rank)
{
    ncclResult_t status = SUCCESS;
    pthread_mutex_lock(&lock);
    calls[function]++;
    Fault **place = &faults, *fault;
    while ((fault = *place) != NULL &&
           (fault->function != (int)function || (fault->rank >= 0 && fault->rank != world_rank)))
        place = &fault->next;
    if (fault != NULL && fault->skip-- == 0) {
        status = fault->status;
        *place = fault->next;
        free(fault);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* Write down what no correct program does. */
void complain(const char *format, ...)
{
    Line *line = allocate(sizeof *line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line->text, sizeof line->text, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&lock);
    *end_of_mistakes = line;
    end_of_mistakes = &line->next;
    pthread_mutex_unlock(&lock);
}

/* Copy the last mistake to `text`, which has LINE_SIZE bytes. */
void last_complaint(char *text)
{
    text[0] = 0;
    pthread_mutex_lock(&lock);
    for (const Line *line = mistakes; line != NULL; line = line->next)
        memcpy(text, line->text, LINE_SIZE);
    pthread_mutex_unlock(&lock);
}

bool is_stalled(int world_rank) { return atomic_load(&stalled[world_rank]); }

int ordered_version(void) { return atomic_load(&version); }

int device_for(int world_rank)
{
    int device = atomic_load(&devices[world_rank]);
    int (*current)(void) = atomic_load(&device_of_thread);
    return device ? device - 1 : current ? current() : world_rank;
}

DiscoStream *null_stream_of(int device)
{
    DiscoStream *(*find)(int) = atomic_load(&null_stream);
    return find ? find(device) : NULL;
}

/* Depends on the seed, the rank and the operation alone: threads come in another order each time, a seed
 * means the same each time. The constants are those of splitmix64. */
unsigned ordered_delay_us(int world_rank, uint64_t number)
{
    unsigned most = atomic_load(&delay_us);
    uint64_t mixed =
        atomic_load(&delay_seed) + 0x9E3779B97F4A7C15u * (number * MAX_RANKS + (uint64_t)world_rank + 1);
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
    return most ? (unsigned)((mixed ^ mixed >> 31) % (most + 1ull)) : 0;
}

/* ---- For tests ---- */

static void only_wake(Clique *clique, ncclResult_t status) { (void)clique, (void)status; }

static void give_up(Clique *clique, ncclResult_t status)
{
    if (clique->nranks > 0) /* somebody has come */
        settle(clique, status);
}

EXPORT const char *disco_nccl_function_name(int function)
{
    return function < NUM_FUNCTIONS ? FUNCTION_NAMES[function] : NULL;
}

EXPORT uint64_t disco_nccl_calls(int function)
{
    pthread_mutex_lock(&lock);
    uint64_t count = calls[function];
    pthread_mutex_unlock(&lock);
    return count;
}

EXPORT int disco_nccl_alive(void) { return atomic_load(&alive); }
EXPORT int disco_nccl_in_flight(void) { return atomic_load(&in_flight); }
EXPORT int disco_nccl_waiting(void) { return atomic_load(&waiting); }
EXPORT void disco_nccl_set_version(int code) { atomic_store(&version, code); }
EXPORT void disco_nccl_set_device(int rank, int device) { atomic_store(&devices[rank], device + 1); }

/* What says which device is the calling thread's, and what stands for a device's null stream; NULL: nothing. */
EXPORT void disco_nccl_set_gpus(int (*current)(void), DiscoStream *(*null)(int device))
{
    atomic_store(&device_of_thread, current);
    atomic_store(&null_stream, null);
}

EXPORT void disco_nccl_set_delay(unsigned most_us, uint64_t seed)
{
    atomic_store(&delay_seed, seed);
    atomic_store(&delay_us, most_us);
}

EXPORT void disco_nccl_fail(int function, int rank, ncclResult_t status, int skip)
{
    Fault *fault = allocate(sizeof *fault), **place = &faults;
    *fault = (Fault){NULL, function, rank, skip, status};
    pthread_mutex_lock(&lock);
    while (*place != NULL)
        place = &(*place)->next;
    *place = fault;
    pthread_mutex_unlock(&lock);
}

EXPORT void disco_nccl_stall(int rank, bool on)
{
    atomic_store(&stalled[rank], on);
    for_all_cliques(only_wake, SUCCESS); /* under each lock: nobody who has looked before misses it */
}

/* Who waits for ranks that never come to the making of a communicator returns `status`. */
EXPORT void disco_nccl_fail_forming(ncclResult_t status) { for_all_cliques(give_up, status); }

/* How many communicators of `rank` were there to get it. */
EXPORT int disco_nccl_async_error(int rank, ncclResult_t status)
{
    int count = 0;
    Comm **found = living(rank);
    for (; found[count] != NULL; count++) {
        Comm *comm = found[count];
        pthread_mutex_lock(&comm->clique->lock);
        comm->error = status;
        pthread_cond_broadcast(&comm->clique->changed);
        pthread_mutex_unlock(&comm->clique->lock);
        release(comm);
    }
    free(found);
    return count;
}

/* Copy the `index`-th mistake to `text`, which has LINE_SIZE bytes; false if there is none. */
EXPORT bool disco_nccl_mistake(int index, char *text)
{
    pthread_mutex_lock(&lock);
    const Line *line = mistakes;
    while (line != NULL && index-- > 0)
        line = line->next;
    if (line != NULL)
        memcpy(text, line->text, LINE_SIZE);
    pthread_mutex_unlock(&lock);
    return line != NULL;
}

/* Everyone who waits goes on: communicators that were not made yet fail, those that are alive are aborted.
 * Returns how many were alive. */
EXPORT int disco_nccl_abort_all(void)
{
    int count = 0;
    for_all_cliques(settle, SYSTEM_ERROR);
    Comm **found = living(-1);
    for (; found[count] != NULL; count++) {
        abort_comm(found[count]);
        release(found[count]);
    }
    free(found);
    forget_handles();
    return count;
}

/* Forget all orders, counters and mistakes. */
EXPORT void disco_nccl_forget(void)
{
    for (int rank = 0; rank < MAX_RANKS; rank++) {
        atomic_store(&stalled[rank], false);
        atomic_store(&devices[rank], 0);
    }
    atomic_store(&version, DEFAULT_VERSION);
    atomic_store(&delay_us, 0);
    for_all_cliques(only_wake, SUCCESS);
    pthread_mutex_lock(&lock);
    memset(calls, 0, sizeof calls);
    for (Fault *next; faults != NULL; faults = next) {
        next = faults->next;
        free(faults);
    }
    for (Line *next; mistakes != NULL; mistakes = next) {
        next = mistakes->next;
        free(mistakes);
    }
    end_of_mistakes = &mistakes;
    pthread_mutex_unlock(&lock);
}
