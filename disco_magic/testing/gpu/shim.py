"""The text before and after a kernel's source when g++ compiles it: CUDA's keywords, and a launcher.

Options like ``-DT=float`` become lines between the text before and the source, so that users' macros do not
affect the former. In the text after it most names begin with ``disco``, so that macros seldom clash.

The launcher needs no parser: C++ deduces the types of the kernel's parameters. The launcher reads each
argument from its bytes, and reports the size of each parameter, so that a wrong argument is an error instead
of garbage in the kernel.
"""

from __future__ import annotations

from typing import Final

# No headers are included: a source for nvrtc has its own typedefs, which must not clash with a C library's.
BEFORE: Final = r"""
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __constant__ static const
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };
static thread_local uint3 blockIdx, threadIdx;
static thread_local dim3 gridDim, blockDim;
static const int warpSize = 32;

#define DISCO_BITS(NAME, FROM, TO) \
    static inline TO NAME(FROM from) { TO to; __builtin_memcpy(&to, &from, sizeof to); return to; }
DISCO_BITS(__float_as_int, float, int)
DISCO_BITS(__float_as_uint, float, unsigned)
DISCO_BITS(__int_as_float, int, float)
DISCO_BITS(__uint_as_float, unsigned, float)
DISCO_BITS(__double_as_longlong, double, long long)
DISCO_BITS(__longlong_as_double, long long, double)

#define DISCO_MATH(T, SUFFIX) \
    static inline bool isnan(T a) { return __builtin_isnan(a); } \
    static inline bool isinf(T a) { return __builtin_isinf(a); } \
    static inline bool isfinite(T a) { return __builtin_isfinite(a); } \
    static inline T min(T a, T b) { return __builtin_fmin##SUFFIX(a, b); } \
    static inline T max(T a, T b) { return __builtin_fmax##SUFFIX(a, b); }
DISCO_MATH(float, f)
DISCO_MATH(double, )
#define DISCO_ORDER(T) \
    static inline T min(T a, T b) { return b < a ? b : a; } \
    static inline T max(T a, T b) { return a < b ? b : a; }
DISCO_ORDER(int)
DISCO_ORDER(unsigned)
DISCO_ORDER(long)
DISCO_ORDER(unsigned long)
DISCO_ORDER(long long)
DISCO_ORDER(unsigned long long)
extern "C" float fminf(float, float) noexcept, fmaxf(float, float) noexcept, fabsf(float) noexcept,
    sqrtf(float) noexcept, expf(float) noexcept, logf(float) noexcept, fmaf(float, float, float) noexcept;
extern "C" double fmin(double, double) noexcept, fmax(double, double) noexcept, fabs(double) noexcept,
    sqrt(double) noexcept, exp(double) noexcept, log(double) noexcept, fma(double, double, double) noexcept;
template<class T> static inline T __ldg(const T* from) { return *from; }
"""

AFTER: Final = r"""
#line 1 "launcher"
namespace disco {
template<class disco_T> struct is_pointer { static const int value = 0; };
template<class disco_T> struct is_pointer<disco_T*> { static const int value = 1; };

template<unsigned... disco_I> struct numbers {};
template<unsigned disco_N, unsigned... disco_I> struct up_to : up_to<disco_N - 1, disco_N - 1, disco_I...> {};
template<unsigned... disco_I> struct up_to<0, disco_I...> { typedef numbers<disco_I...> type; };

template<class disco_T> static disco_T disco_read(const void* disco_from) {
    alignas(disco_T) unsigned char disco_bytes[sizeof(disco_T)];
    __builtin_memcpy(disco_bytes, disco_from, sizeof(disco_T));
    return *reinterpret_cast<disco_T*>(disco_bytes);
}

template<class... disco_A, unsigned... disco_I>
static void run(void (*disco_f)(disco_A...), const void* const* disco_args, const unsigned* disco_dims,
                numbers<disco_I...>) {
    gridDim = dim3{disco_dims[0], disco_dims[1], disco_dims[2]};
    blockDim = dim3{disco_dims[3], disco_dims[4], disco_dims[5]};
    for (blockIdx.z = 0; blockIdx.z < disco_dims[2]; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < disco_dims[1]; blockIdx.y++)
    for (blockIdx.x = 0; blockIdx.x < disco_dims[0]; blockIdx.x++)
    for (threadIdx.z = 0; threadIdx.z < disco_dims[5]; threadIdx.z++)
    for (threadIdx.y = 0; threadIdx.y < disco_dims[4]; threadIdx.y++)
    for (threadIdx.x = 0; threadIdx.x < disco_dims[3]; threadIdx.x++)
        disco_f(disco_read<disco_A>(disco_args[disco_I])...);
}

template<class... disco_A>
static void launch(void (*disco_f)(disco_A...), const void* const* disco_args, const unsigned* disco_dims) {
    run(disco_f, disco_args, disco_dims, typename up_to<sizeof...(disco_A)>::type());
}

/* The number of parameters; writes the size of each, negative for a pointer. */
template<class... disco_A> static int describe(void (*)(disco_A...), int* disco_sizes, int disco_room) {
    const int disco_all[] = {int(sizeof(disco_A)) * (is_pointer<disco_A>::value ? -1 : 1)..., 0};
    for (int disco_i = 0; disco_i < int(sizeof...(disco_A)) && disco_i < disco_room; disco_i++)
        disco_sizes[disco_i] = disco_all[disco_i];
    return int(sizeof...(disco_A));
}
}
extern "C" void disco_launch(const void* const* disco_args, const unsigned* disco_dims) {
    disco::launch(DISCO_KERNEL, disco_args, disco_dims);
}
extern "C" int disco_describe(int* disco_sizes, int disco_room) {
    return disco::describe(DISCO_KERNEL, disco_sizes, disco_room);
}
"""
