/* Reductions, as NCCL rounds them: after every step, to the arrays' own dtype. */

#include "nccl_double.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The floating-point formats below 32 bits. A step of a reduction is done in float64 and rounded to the
 * format, to nearest, ties to even: with at least twice the digits and two more, that is the correctly
 * rounded result, as the GPU's own instructions give it. The 8-bit formats saturate as CUDA's conversions do;
 * e4m3 has no infinity. */
typedef struct {
    int exponent_bits, fraction_bits;
    bool saturates, has_infinity;
} Format;
static const Format FLOAT16_FORMAT = {5, 10, false, true}, BFLOAT16_FORMAT = {8, 7, false, true};
static const Format E4M3_FORMAT = {4, 3, true, false}, E5M2_FORMAT = {5, 2, true, true};

static double decode(unsigned bits, const Format *format)
{
    unsigned all_fraction = (1u << format->fraction_bits) - 1;
    unsigned all_exponent = (1u << format->exponent_bits) - 1;
    unsigned fraction = bits & all_fraction, exponent = bits >> format->fraction_bits & all_exponent;
    int smallest = 2 - (1 << (format->exponent_bits - 1)) - format->fraction_bits; /* number's power of two */
    bool negative = bits >> (format->exponent_bits + format->fraction_bits) & 1;
    double size;
    if (exponent == all_exponent && format->has_infinity)
        size = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == all_exponent && fraction == all_fraction && !format->has_infinity)
        size = (double)NAN;
    else if (exponent == 0)
        size = ldexp(fraction, smallest);
    else
        size = ldexp(fraction + all_fraction + 1, smallest + (int)exponent - 1);
    return negative ? -size : size;
}

static unsigned encode(double value, const Format *format)
{
    unsigned infinity = ((1u << format->exponent_bits) - 1) << format->fraction_bits;
    unsigned nan = infinity | (format->has_infinity ? 1u << (format->fraction_bits - 1)
                                                    : (1u << format->fraction_bits) - 1);
    unsigned largest = (format->has_infinity ? infinity : nan) - 1;
    unsigned sign = signbit(value) ? 1u << (format->exponent_bits + format->fraction_bits) : 0;
    int bias = (1 << (format->exponent_bits - 1)) - 1, exponent;
    if (value == 0)
        return sign;
    if (isnan(value))
        return sign | nan;
    if (isinf(value))
        return sign | (format->saturates ? largest : infinity);
    frexp(value, &exponent);
    exponent--; /* frexp counts from 1/2 */
    if (exponent < 1 - bias)
        exponent = 1 - bias; /* subnormal numbers have the spacing of the smallest normal ones */
    double rounded = nearbyint(ldexp(fabs(value), format->fraction_bits - exponent));
    /* The leading digit of `rounded` adds one to the exponent's field, and a carry another one. */
    double bits = ldexp(exponent + bias - 1, format->fraction_bits) + rounded;
    if (bits > largest)
        return sign | (format->saturates ? largest : infinity);
    return sign | (unsigned)bits;
}

/* fold: total = total op part. weigh: what the average needs: as in NCCL integers are summed and then divided,
 * toward zero, and floating-point numbers are multiplied by 1/n and then summed. Sums of integers wrap. Largest
 * and smallest pass over NaN, as fmax and fmin do. */
#define INTEGER(NAME, T, WIDE)                                                                                 \
    static void fold_##NAME(void *into, const void *from, size_t count, int op)                                \
    {                                                                                                          \
        T *total = into;                                                                                       \
        const T *part = from;                                                                                  \
        for (size_t i = 0; i < count; i++)                                                                     \
            switch (op) {                                                                                      \
            case PROD: total[i] = (T)((uint64_t)total[i] * (uint64_t)part[i]); break;                          \
            case MAX: total[i] = total[i] > part[i] ? total[i] : part[i]; break;                               \
            case MIN: total[i] = total[i] < part[i] ? total[i] : part[i]; break;                               \
            default: total[i] = (T)((uint64_t)total[i] + (uint64_t)part[i]);                                   \
            }                                                                                                  \
    }                                                                                                          \
    static void weigh_##NAME(void *into, size_t count, int n)                                                  \
    {                                                                                                          \
        for (size_t i = 0; i < count; i++)                                                                     \
            ((T *)into)[i] = (T)((WIDE)((T *)into)[i] / (WIDE)n);                                              \
    }
#define FLOATING(NAME, T, GET, PUT)                                                                            \
    static void fold_##NAME(void *into, const void *from, size_t count, int op)                                \
    {                                                                                                          \
        T *total = into;                                                                                       \
        const T *part = from;                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                                   \
            double a = GET(total[i]), b = GET(part[i]);                                                        \
            double both = op == PROD ? a * b : op == MAX ? fmax(a, b) : op == MIN ? fmin(a, b) : a + b;        \
            total[i] = (T)PUT(both);                                                                           \
        }                                                                                                      \
    }                                                                                                          \
    static void weigh_##NAME(void *into, size_t count, int n)                                                  \
    {                                                                                                          \
        T weight = (T)PUT(1.0 / n);                                                                            \
        for (size_t i = 0; i < count; i++)                                                                     \
            ((T *)into)[i] = (T)PUT(GET(((T *)into)[i]) * GET(weight));                                        \
    }
#define SAME(value) (value)
#define GET_FLOAT16(bits) decode(bits, &FLOAT16_FORMAT)
#define PUT_FLOAT16(value) encode(value, &FLOAT16_FORMAT)
#define GET_BFLOAT16(bits) decode(bits, &BFLOAT16_FORMAT)
#define PUT_BFLOAT16(value) encode(value, &BFLOAT16_FORMAT)
#define GET_E4M3(bits) decode(bits, &E4M3_FORMAT)
#define PUT_E4M3(value) encode(value, &E4M3_FORMAT)
#define GET_E5M2(bits) decode(bits, &E5M2_FORMAT)
#define PUT_E5M2(value) encode(value, &E5M2_FORMAT)

INTEGER(int8, int8_t, int64_t)
INTEGER(uint8, uint8_t, uint64_t)
INTEGER(int32, int32_t, int64_t)
INTEGER(uint32, uint32_t, uint64_t)
INTEGER(int64, int64_t, int64_t)
INTEGER(uint64, uint64_t, uint64_t)
FLOATING(float16, uint16_t, GET_FLOAT16, PUT_FLOAT16)
FLOATING(float32, float, SAME, SAME)
FLOATING(float64, double, SAME, SAME)
FLOATING(bfloat16, uint16_t, GET_BFLOAT16, PUT_BFLOAT16)
FLOATING(e4m3, uint8_t, GET_E4M3, PUT_E4M3)
FLOATING(e5m2, uint8_t, GET_E5M2, PUT_E5M2)

const size_t TYPE_NBYTES[NUM_TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static const struct {
    bool divides_last; /* the average's division comes after the sum */
    void (*fold)(void *into, const void *from, size_t count, int op);
    void (*weigh)(void *into, size_t count, int n);
} TYPES[NUM_TYPES] = {
    {true, fold_int8, weigh_int8},        {true, fold_uint8, weigh_uint8},
    {true, fold_int32, weigh_int32},      {true, fold_uint32, weigh_uint32},
    {true, fold_int64, weigh_int64},      {true, fold_uint64, weigh_uint64},
    {false, fold_float16, weigh_float16}, {false, fold_float32, weigh_float32},
    {false, fold_float64, weigh_float64}, {false, fold_bfloat16, weigh_bfloat16},
    {false, fold_e4m3, weigh_e4m3},       {false, fold_e5m2, weigh_e5m2},
};

/* All ranks' `count` elements folded in order of the ranks, in memory that the caller frees. */
char *folded(Op *const *ops, int nranks, size_t count)
{
    int dtype = ops[0]->dtype, op = ops[0]->op;
    size_t nbytes = count * TYPE_NBYTES[dtype];
    bool weighs_first = op == AVG && !TYPES[dtype].divides_last;
    char *total = allocate(nbytes), *part = allocate(nbytes);
    for (int rank = 0; rank < nranks; rank++) {
        char *here = rank ? part : total;
        if (nbytes)
            memcpy(here, ops[rank]->send, nbytes);
        if (weighs_first)
            TYPES[dtype].weigh(here, count, nranks);
        if (rank)
            TYPES[dtype].fold(total, part, count, op);
    }
    if (op == AVG && !weighs_first)
        TYPES[dtype].weigh(total, count, nranks);
    free(part);
    return total;
}
