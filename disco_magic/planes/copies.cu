// Many copies on one GPU in one launch: blockIdx.y selects the copy, which the blocks of that row share.
// copier.py compiles this file for each `Variant` that it needs; these macros of a variant matter here:
//
//   VECTOR   bytes that a thread reads or writes in one access; all addresses are multiples of it
//   UNROLL   accesses that a thread has in flight at a time
//   FLAT     1: source and target of every copy are one row
//   COUNTER  u32, or u64 if there are more accesses than u32 can count
//
// Sources and targets do not overlap, and no thread reads what another one writes. So, as in fold.cu, the threads
// may also run one after the other, which they do in tests without a GPU.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define INLINE __device__ __forceinline__

// As in kernels.py and copier.py.
enum { BLOCK = 256, MOST = 64 };

struct Copy {
    const char *source;
    char *target;
    i64 accesses;
    i64 width;         // accesses per row; ignored if FLAT
    i64 source_pitch;  // bytes from row to row; ignored if FLAT
    i64 target_pitch;
    i64 tail;          // bytes after the last access; only if FLAT
};

struct Job { Copy copy[MOST]; };

template <int bytes> struct Words;
template <> struct Words<1> { u8 memory; };
template <> struct Words<2> { u16 memory; };
template <> struct Words<4> { u32 memory; };
template <> struct Words<8> { u64 memory; };
template <> struct Words<16> { struct alignas(16) { u64 part[2]; } memory; };
typedef Words<VECTOR> Access;

struct Place { i64 source, target; };  // bytes from the beginning
INLINE Place place(const Copy &copy, COUNTER i) {
    if (FLAT) return Place{(i64)i * VECTOR, (i64)i * VECTOR};
    const COUNTER width = (COUNTER)copy.width, row = i / width;
    const i64 column = (i64)(i - row * width) * VECTOR;
    return Place{(i64)row * copy.source_pitch + column, (i64)row * copy.target_pitch + column};
}

// All loads come before the first store: only further loads can hide the memory latency of a load.
template <int unroll> INLINE void move(const Copy &copy, COUNTER i) {
    Place at[unroll];
    Access words[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) at[u] = place(copy, i + u * BLOCK);
#pragma unroll
    for (int u = 0; u < unroll; ++u) words[u] = *(const Access *)(copy.source + at[u].source);
#pragma unroll
    for (int u = 0; u < unroll; ++u) *(Access *)(copy.target + at[u].target) = words[u];
}

extern "C" __global__ void __launch_bounds__(BLOCK) copies(Job job) {
    const Copy copy = job.copy[blockIdx.y];
    const COUNTER count = (COUNTER)copy.accesses, step = (COUNTER)gridDim.x * (BLOCK * UNROLL);
    COUNTER i = (COUNTER)blockIdx.x * (BLOCK * UNROLL) + threadIdx.x;
    for (; i + (UNROLL - 1) * BLOCK < count; i += step) move<UNROLL>(copy, i);
    if (UNROLL > 1)
        for (; i < count; i += BLOCK) move<1>(copy, i);  // the rest, less than a full round
    if (FLAT && blockIdx.x == 0 && threadIdx.x < (u32)copy.tail) {
        const i64 at = copy.accesses * VECTOR + threadIdx.x;
        copy.target[at] = copy.source[at];
    }
}
