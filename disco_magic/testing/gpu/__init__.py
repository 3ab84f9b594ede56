"""Simulated GPUs: an object like the module `cupy`, on host memory, with truly asynchronous streams.

::

    with SimulatedGpus(count=2) as gpus:
        cupy = gpus.cupy
        with cupy.cuda.Device(1), cupy.cuda.Stream(non_blocking=True) as stream:
            total = cupy.ones(1000).sum()     # returns at once; the stream's thread computes
        stream.synchronize()

What goes wrong on a GPU goes wrong here: work without an event in between runs in any order, memory that is
freed while in use is overwritten, unwritten memory holds a pattern, an error comes up at a later call and
persists. Kernels are compiled by g++.

::

    gpus.py                  the public class, the modules, and memory as a thread sees it
    functions.py             functions on arrays; creation.py; runtime.py: on addresses
    arrays.py                arrays; operators.py, dlpack.py; operations.py: their common parts
    cuda.py                  devices, streams, events as a thread sees them
    kernels.py, shim.py      compiled kernels
    world.py                 all devices; each thread's current device and stream; device.py: one device
    streams.py, pieces.py    queues and their threads; what is in a queue, or recorded for later
    memory.py                pools
"""

from disco_magic.testing.gpu.gpus import SimulatedGpus
from disco_magic.testing.gpu.pieces import Hold
from disco_magic.testing.gpu.streams import DiscoStream

__all__ = ["DiscoStream", "Hold", "SimulatedGpus"]
