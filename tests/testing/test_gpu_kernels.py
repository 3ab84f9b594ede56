"""Kernels of the simulated GPU: the source that nvrtc gets, compiled by g++, on the stream's thread."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="kernels are compiled by g++")

SOURCE = r"""
typedef unsigned long long u64;
struct Job { u64 count; float* sources[2]; double scale; int shift; };

extern "C" __global__ void __launch_bounds__(256) combine(T* __restrict__ out, Job job) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < job.count; i += (u64)gridDim.x * blockDim.x)
        out[i] = (T)(job.scale * (job.sources[0][i] + job.sources[1][i])) + job.shift;
}

extern "C" __global__ void numbers(double* out, long long a, double b, float c, bool d, short e, u64 f) {
    out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f;
}

static __device__ __forceinline__ int linear() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * (threadIdx.z + blockDim.z
           * (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z))));
}
extern "C" __global__ void places(int* out) { out[linear()] += linear(); }

extern "C" __global__ void words(unsigned* out) {
    out[0] = __float_as_uint(max(1.0f, min(2.0f, 3.0f)));
    out[1] = isnan(__uint_as_float(0x7fc00000u)) + 2 * isfinite(1.0) + 4 * isinf(0.0f);
    out[2] = max(3u, min(7u, 5u)) + __ldg(out + 3);
}
"""
JOB = np.dtype([("count", "u8"), ("sources", "u8", 2), ("scale", "f8"), ("shift", "i4")], align=True)


@pytest.fixture
def module(cupy):
    return cupy.RawModule(code=SOURCE, options=("-DT=float", "--fmad=false", "-arch=sm_90"), backend="nvrtc")


def job(x, y, shift=0):
    return np.array((x.size, (x.data.ptr, y.data.ptr), 0.5, shift), JOB)


@pytest.mark.parametrize("kind", ["float", "int"])
def test_a_kernel_takes_a_struct_by_value_and_its_types_from_macros(cupy, kind):
    x, y = cupy.arange(1000, dtype=np.float32), cupy.ones(1000, np.float32)
    out = cupy.empty(1000, {"float": np.float32, "int": np.int32}[kind])
    module = cupy.RawModule(code=SOURCE, options=(f"-DT={kind}", "-DUNUSED"))
    module.get_function("combine")((2,), (64,), (out, job(x, y, 3)))
    expected = (0.5 * (np.arange(1000, dtype=np.float32) + 1)).astype(out.dtype) + out.dtype.type(3)
    assert out.get().tolist() == expected.tolist()


def test_a_launch_is_work_on_the_current_stream(gpus, cupy, module):
    stream = cupy.cuda.Stream(non_blocking=True)
    kernel = module.get_function("combine")
    with stream:
        x, y, out = cupy.zeros(8, np.float32), cupy.zeros(8, np.float32), cupy.zeros(8, np.float32)
        stream.synchronize()
        with gpus.hold(stream):
            given = job(x, y, 1)
            kernel((1,), (8,), (out, given))
            given["shift"] = 9  # the parameters were copied by the launch
            kernel((1,), (8,), (out, job(out, out, 1)))
            assert not stream.done
        assert out.get().tolist() == [2] * 8


def test_a_kernel_keeps_no_array_alive(gpus, cupy, module, two_streams):
    """As on a GPU: what is freed before the kernel runs is somebody else's when it does."""
    a, b = two_streams
    kernel = module.get_function("combine")
    with a:
        x, out = cupy.ones(8, np.float32), cupy.zeros(8, np.float32)
        a.synchronize()
    with gpus.hold(b):
        with b:
            kernel((1,), (8,), (out, job(x, x)))
        del x
        with a:
            y = cupy.full(8, 7, np.float32)
            a.synchronize()
    assert out.get(stream=b).tolist() == y.get(stream=b).tolist() == [7] * 8


def test_numbers_are_what_their_parameters_are(cupy, module):
    out = cupy.empty(6)
    module.get_function("numbers")((1,), (1,), (out, -5, 2.5, np.float32(0.1), True, np.int16(-3), out.size))
    assert out.get().tolist() == [-5, 2.5, np.float32(0.1), 1, -3, 6]


def test_a_pointer_may_come_as_an_address(cupy, module):
    out = cupy.zeros(1, np.int32) + 5
    module.get_function("places")((1,), (1,), (out.data.ptr,))
    assert out.item() == 5


def test_every_thread_of_every_block_runs_once(cupy, module):
    out = cupy.zeros(2 * 3 * 4 * 2 * 2 * 2, np.int32)
    module.get_function("places")((2, 3, 4), (2, 2, 2), (out,))
    assert out.get().tolist() == list(range(out.size))


def test_words_of_cuda(cupy, module):
    out = cupy.full(4, 100, np.uint32)
    module.get_function("words")((1,), (1,), (out,))
    assert out.get().tolist() == [np.float32(2).view(np.uint32), 3, 105, 100]


def test_products_are_not_fused_with_sums(cupy):
    source = 'extern "C" __global__ void f(float* o, float a, float b) { o[0] = a * b + o[0]; }'
    a, b = np.float32(1 + 2**-12), np.float32(1 + 2**-12)
    out = cupy.full(1, -(a * b), np.float32)
    cupy.RawKernel(source, "f", ("-fmad=true",))((1,), (1,), (out, a, b))
    assert out.item() == 0.0


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("places", (), "1 parameters, got 0"),
        ("places", (1.5, 2), "1 parameters, got 2"),
        (
            "places",
            (np.int32(1),),
            r"argument 0 of places has 4 bytes and is a int32; its parameter is a pointer",
        ),
        ("places", (np.zeros(3),), "array on the host"),
        ("places", ("text",), "is a str"),
        (
            "numbers",
            ("out", 1, 1.0, 1.0, True, np.int16(1), 1),
            "argument 3 of numbers has 8 bytes.*4 bytes by value",
        ),
        (
            "numbers",
            ("out", "out", 1.0, 1.0, True, np.int16(1), 1),
            "argument 1 of numbers.*8 bytes by value",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_an_error_and_no_garbage(cupy, module, name, arguments, words):
    out = cupy.zeros(6)
    given = tuple(out if isinstance(each, str) and each == "out" else each for each in arguments)
    with pytest.raises(TypeError, match=words):
        module.get_function(name)((1,), (1,), given)


@pytest.mark.parametrize(
    ("grid", "block"), [((0,), (1,)), ((1,), (2048,)), ((1,), (0,)), ((1,), (32, 32, 2))]
)
def test_a_launch_of_nothing_or_too_much_is_an_error(cupy, module, grid, block):
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_VALUE"):
        module.get_function("places")(grid, block, (cupy.zeros(1, np.int32),))


def test_an_array_of_another_device_is_refused(cupy, module):
    with cupy.cuda.Device(1):
        out = cupy.zeros(1, np.int32)
    with pytest.raises(ValueError, match=r"resides \(1\)"):
        module.get_function("places")((1,), (1,), (out,))


def test_errors_of_a_source_are_those_of_the_compiler(cupy):
    module = cupy.RawModule(code='\nextern "C" __global__ void f() { nonsense; }', options=("-DA=1",))
    for call in (module.compile, lambda: module.get_function("f")):
        with pytest.raises(cupy.cuda.compiler.CompileException, match=r"kernel\.cu:2.*nonsense") as caught:
            call()
    assert "nonsense" in caught.value.get_message()
    assert (caught.value.options, "nonsense" in caught.value.source) == (("-DA=1",), True)


def test_a_kernel_that_is_not_there_is_an_error(cupy, module):
    module.compile()
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="named symbol not found: other"):
        module.get_function("other")


def test_without_a_compiler_the_error_says_what_is_missing(cupy, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match=r"g\+\+"):
        cupy.RawModule(code="// never compiled before").compile()


def test_what_is_not_simulated_is_refused(cupy, module):
    with pytest.raises(NotImplementedError, match=r"without kernel\.cubin"):
        cupy.RawModule(path="kernel.cubin")
    with pytest.raises(NotImplementedError, match="jitify"):
        cupy.RawModule(code="", jitify=True)
    with pytest.raises(NotImplementedError, match="jitify"):
        cupy.RawKernel("", "f", jitify=True)
    with pytest.raises(NotImplementedError, match="shared memory"):
        module.get_function("places")((1,), (1,), (cupy.zeros(1, np.int32),), shared_mem=4)
