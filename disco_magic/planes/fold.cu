// One fold on a GPU: read all sources, reduce them element by element in rank order, write the result to
// every target. The rules are those of reductions.py; kernels.py compiles this file for each `Variant`:
//
//   OP           add, multiply, minimum, maximum; not defined: one source is copied as it is
//   AVERAGE      1: the result is divided by the number of sources
//   SOURCE, ACCUMULATOR, RESULT    types of the sources, of the running value, of the targets; see below
//   SOURCES      number of sources; 0: more than GROUP, the job says how many
//   VECTOR       neighbouring elements that a thread reads or writes in one access
//   ALIGN        bytes that every access is aligned to, if that is less than its size
//   UNROLL       accesses per array that a thread has in flight at a time
//   FLAT         1: every array is one row
//   COUNTER      u32, or u64 if there are more accesses than u32 can count
//
// A target may be exactly the memory of a source: a thread reads its elements of all sources before it writes
// the first of them, and no thread reads what another one writes. So there is no __restrict__ here, no shared
// memory and no barrier, and the threads may also run one after the other, which they do in tests without a GPU.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;
struct flag { u8 bits; };   // NumPy's bool: one byte, 0 or not
struct f16 { u16 bits; };   // our own types, so that these two need no header of CUDA
struct bf16 { u16 bits; };
template <class Part> struct complex { Part re, im; };
typedef complex<f32> c64;
typedef complex<f64> c128;

#define INLINE __device__ __forceinline__
#ifdef __CUDA_ARCH__
#define COPY_BYTES memcpy
#else
#define COPY_BYTES __builtin_memcpy  // memcpy would need a header
#endif

// --- Arithmetic ------------------------------------------------------------------------------------

// In PTX, because cupy compiles with -ftz=true, which would flush denormal float32 numbers (in comparisons, too),
// and because a compiler may fuse a product with a sum. Operations with .rn are neither flushed nor fused.
#ifdef __CUDA_ARCH__
#define ROUNDED(name, type, letter, operation, sign)                                              \
    INLINE type name(type a, type b) {                                                            \
        type result;                                                                              \
        asm(operation " %0, %1, %2;" : "=" letter(result) : letter(a), letter(b));                \
        return result;                                                                            \
    }
#define FUSED(type, letter, operation, function)                                                  \
    INLINE type fused(type a, type b, type c) {                                                   \
        type result;                                                                              \
        asm(operation " %0, %1, %2, %3;" : "=" letter(result) : letter(a), letter(b), letter(c)); \
        return result;                                                                            \
    }
#define COMPARED(name, operation, sign)                                                           \
    INLINE bool name(f32 a, f32 b) {                                                              \
        u32 yes;                                                                                  \
        asm("{.reg .pred p; " operation " p, %1, %2; selp.u32 %0, 1, 0, p;}" : "=r"(yes) : "f"(a), "f"(b)); \
        return yes;                                                                               \
    }
#else
#define ROUNDED(name, type, letter, operation, sign) INLINE type name(type a, type b) { return a sign b; }
#define FUSED(type, letter, operation, function) INLINE type fused(type a, type b, type c) { return function(a, b, c); }
#define COMPARED(name, operation, sign) INLINE bool name(f32 a, f32 b) { return a sign b; }
#endif
COMPARED(less, "setp.lt.f32", <)
COMPARED(equal, "setp.eq.f32", ==)
template <class T> INLINE bool less(T a, T b) { return a < b; }
template <class T> INLINE bool equal(T a, T b) { return a == b; }
template <class T> INLINE bool is_nan(T a) { return a != a; }

// Integers wrap around; unsigned, because signed overflow is undefined.
template <class T> INLINE T add(T a, T b) { return (T)((u64)a + (u64)b); }
template <class T> INLINE T multiply(T a, T b) { return (T)((u64)a * (u64)b); }
ROUNDED(add, f32, "f", "add.rn.f32", +)
ROUNDED(add, f64, "d", "add.rn.f64", +)
ROUNDED(subtract, f32, "f", "sub.rn.f32", -)
ROUNDED(subtract, f64, "d", "sub.rn.f64", -)
ROUNDED(multiply, f32, "f", "mul.rn.f32", *)
ROUNDED(multiply, f64, "d", "mul.rn.f64", *)
ROUNDED(divide, f32, "f", "div.rn.f32", /)
ROUNDED(divide, f64, "d", "div.rn.f64", /)
FUSED(f32, "f", "fma.rn.f32", __builtin_fmaf)
FUSED(f64, "d", "fma.rn.f64", __builtin_fma)

// The first NaN stays. Of equal numbers (0.0 and -0.0) the later rank's is taken, as x86's MINPS and MAXPS do.
// Conditions are joined with | and &, which need no branches.
template <class T> INLINE T minimum(T a, T b) { return is_nan(a) | less(a, b) ? a : b; }
template <class T> INLINE T maximum(T a, T b) { return is_nan(a) | less(b, a) ? a : b; }

INLINE flag add(flag a, flag b) { return flag{(u8)((a.bits | b.bits) != 0)}; }
INLINE flag multiply(flag a, flag b) { return flag{(u8)((a.bits != 0) & (b.bits != 0))}; }
INLINE flag minimum(flag a, flag b) { return multiply(a, b); }
INLINE flag maximum(flag a, flag b) { return add(a, b); }

template <class T> INLINE complex<T> add(complex<T> a, complex<T> b) {
    return complex<T>{add(a.re, b.re), add(a.im, b.im)};
}
// Fused as in NumPy's loops for processors with FMA.
template <class T> INLINE complex<T> multiply(complex<T> a, complex<T> b) {
    const T minus = subtract((T)-0.0, multiply(a.im, b.im));  // a plain minus sign would flush denormals
    return complex<T>{fused(a.re, b.re, minus), fused(a.re, b.im, multiply(a.im, b.re))};
}
// NumPy's order: by the real part first; a number that contains a NaN comes before all others and stays.
template <class T> INLINE bool is_nan(complex<T> a) { return is_nan(a.re) | is_nan(a.im); }
template <class T> INLINE bool before(complex<T> a, complex<T> b) {
    return (less(a.re, b.re) & !is_nan(a.im) & !is_nan(b.im)) |
           (equal(a.re, b.re) & (less(a.im, b.im) | equal(a.im, b.im)));
}
template <class T> INLINE complex<T> minimum(complex<T> a, complex<T> b) { return is_nan(a) | before(a, b) ? a : b; }
template <class T> INLINE complex<T> maximum(complex<T> a, complex<T> b) { return is_nan(a) | before(b, a) ? a : b; }

// For a power of two, quotient and product have the same bits; the product is one instruction.
template <class T> INLINE T average(T total, int count) {
    return count & (count - 1) ? divide(total, (T)count) : multiply(total, (T)1 / (T)count);
}
// NumPy divides by a complex count, with Smith's algorithm; its zero imaginary part turns infinities into NaN.
template <class T> INLINE complex<T> average(complex<T> total, int count) {
    const T scale = divide((T)1, (T)count), zero = 0;
    return complex<T>{multiply(add(total.re, multiply(total.im, zero)), scale),
                      multiply(subtract(total.im, multiply(total.re, zero)), scale)};
}

// --- Conversions -----------------------------------------------------------------------------------

INLINE f32 as_f32(u32 bits) { f32 value; COPY_BYTES(&value, &bits, 4); return value; }
INLINE u32 as_bits(f32 value) { u32 bits; COPY_BYTES(&bits, &value, 4); return bits; }

template <class To, class From> struct Convert {
    static INLINE To from(From x) { return (To)x; }  // no conversion, or an integer to float64: rounded once
};
template <> struct Convert<f64, flag> {
    static INLINE f64 from(flag x) { return x.bits != 0; }
};
template <> struct Convert<f32, bf16> {
    static INLINE f32 from(bf16 x) { return as_f32((u32)x.bits << 16); }
};
template <> struct Convert<bf16, f32> {
    static INLINE bf16 from(f32 x) {
        const u32 bits = as_bits(x), rounded = bits + 0x7fff + (bits >> 16 & 1);  // ties round to even
        return bf16{(u16)(is_nan(x) ? bits >> 16 | 0x40 : rounded >> 16)};
    }
};
template <> struct Convert<f32, f16> {
    static INLINE f32 from(f16 x) {
#ifdef __CUDA_ARCH__
        f32 result;
        asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
        return result;
#else
        const u32 sign = (u32)(x.bits & 0x8000) << 16, rest = x.bits & 0x7fff;
        if (rest < 0x400) return as_f32(sign | as_bits((f32)rest * 0x1p-24f));  // zero and denormal numbers
        return as_f32(sign | ((rest << 13) + (rest < 0x7c00 ? 0x38000000 : 0x70000000)));
#endif
    }
};
template <> struct Convert<f16, f32> {
    static INLINE f16 from(f32 x) {
#ifdef __CUDA_ARCH__
        f16 result;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
        return result;
#else
        const u32 sign = as_bits(x) >> 16 & 0x8000, rest = as_bits(x) & 0x7fffffff;
        if (rest > 0x7f800000) return f16{(u16)(sign | 0x7e00)};
        if (rest >= 0x47800000) return f16{(u16)(sign | 0x7c00)};  // from 65536; a little less may round up below
        // The last bit of 0.5 has the value of a denormal float16's last bit, so the sum rounds at that bit.
        if (rest < 0x38800000) return f16{(u16)(sign | (as_bits(as_f32(rest) + 0.5f) - as_bits(0.5f)))};
        return f16{(u16)(sign | ((rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13))};
#endif
    }
};

// --- Memory ----------------------------------------------------------------------------------------

// As in kernels.py and variants.py.
enum { BLOCK = 256, GROUP = 8, MOST = 128 };

struct Job {
    i64 accesses;     // per array
    i64 width;        // accesses per row; ignored if FLAT
    i32 tail;         // elements after the last access; only if FLAT
    i32 sources;
    i32 targets;
    i32 unused;
    char *data[MOST]; // the sources in rank order, then the targets
    i64 pitch[MOST];  // bytes from row to row; ignored if FLAT
};

template <int bytes> struct Unit;
template <> struct Unit<1> { typedef u8 type; };
template <> struct Unit<2> { typedef u16 type; };
template <> struct Unit<4> { typedef u32 type; };
template <> struct Unit<8> { typedef u64 type; };

// What one access moves, in machine words: an array of small elements would be split into as many accesses.
template <class T, int elements> struct Words {
    enum { bytes = sizeof(T) * elements, align = bytes < ALIGN ? (int)bytes : ALIGN, word = align < 8 ? (int)align : 8 };
    struct alignas(align) Memory { typename Unit<word>::type part[bytes / word]; } memory;

    INLINE void load(const char *address) { memory = *(const Memory *)address; }
    INLINE void store(char *address) const { *(Memory *)address = memory; }
    INLINE void unpack(T *values) const { COPY_BYTES(values, &memory, bytes); }
    INLINE void pack(const T *values) { COPY_BYTES(&memory, values, bytes); }
};

struct Place { COUNTER row; u64 column; };  // column: in accesses
INLINE Place place(const Job &job, COUNTER i) {
    if (FLAT) return Place{0, i};
    const COUNTER width = (COUNTER)job.width, row = i / width;
    return Place{row, i - row * width};
}

INLINE char *address(const Job &job, int array, Place at, u64 bytes) {
    char *row = FLAT ? job.data[array] : job.data[array] + (i64)at.row * job.pitch[array];
    return row + at.column * bytes;
}

// --- The fold --------------------------------------------------------------------------------------

// `unroll` accesses of `vector` elements to every array. All loads of a group come before its arithmetic, because
// only further loads can hide the memory latency of a load.
template <int vector, int unroll> INLINE void move(const Job &job, const Place (&at)[unroll]) {
    enum { group = SOURCES ? SOURCES : GROUP };
    const int sources = SOURCES ? SOURCES : job.sources;
    Words<SOURCE, vector> in[unroll][group];
#ifdef OP
    ACCUMULATOR value[unroll][vector];
#endif
#pragma unroll 1
    for (int first = 0; first < sources; first += group) {
#pragma unroll
        for (int s = 0; s < group; ++s)
#pragma unroll
            for (int u = 0; u < unroll; ++u)
                if (first + s < sources)
                    in[u][s].load(address(job, first + s, at[u], sizeof(SOURCE) * vector));
#ifdef OP
#pragma unroll
        for (int u = 0; u < unroll; ++u)
#pragma unroll
            for (int s = 0; s < group; ++s)
                if (first + s < sources) {
                    SOURCE source[vector];
                    in[u][s].unpack(source);
#pragma unroll
                    for (int v = 0; v < vector; ++v) {
                        const ACCUMULATOR next = Convert<ACCUMULATOR, SOURCE>::from(source[v]);
                        value[u][v] = first + s == 0 ? next : OP(value[u][v], next);
                    }
                }
#endif
    }
    Words<RESULT, vector> out[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
#ifdef OP
        RESULT result[vector];
#pragma unroll
        for (int v = 0; v < vector; ++v) {
#if AVERAGE
            value[u][v] = average(value[u][v], sources);
#endif
            result[v] = Convert<RESULT, ACCUMULATOR>::from(value[u][v]);
        }
        out[u].pack(result);
#else
        out[u] = in[u][0];
#endif
    }
#pragma unroll 1
    for (int t = sources; t < sources + job.targets; ++t)
#pragma unroll
        for (int u = 0; u < unroll; ++u) out[u].store(address(job, t, at[u], sizeof(RESULT) * vector));
}

extern "C" __global__ void __launch_bounds__(BLOCK) fold(Job job) {
    const COUNTER count = (COUNTER)job.accesses, step = (COUNTER)gridDim.x * (BLOCK * UNROLL);
    COUNTER i = (COUNTER)blockIdx.x * (BLOCK * UNROLL) + threadIdx.x;
    for (; i + (UNROLL - 1) * BLOCK < count; i += step) {
        Place at[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) at[u] = place(job, i + u * BLOCK);
        move<VECTOR, UNROLL>(job, at);
    }
    if (UNROLL > 1)
        for (; i < count; i += BLOCK) {  // the rest, less than a full round
            const Place at[1] = {place(job, i)};
            move<VECTOR, 1>(job, at);
        }
    if (FLAT && blockIdx.x == 0 && threadIdx.x < (u32)job.tail) {
        const Place at[1] = {{0, (u64)job.accesses * VECTOR + threadIdx.x}};
        move<1, 1>(job, at);
    }
}
