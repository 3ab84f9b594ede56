"""What `benchmarks.gpu` measures on one GPU; a process per section, so that a hang costs only one section.

::

    gpu.py --- checks      tests/gpu, a process per file; tell.py: each test's outcome as it ends
       |
       +------ launch      python -m benchmarks.gpus SECTION: one line of JSON per figure, as it is made
       |          copies        host <-> GPU through staging buffers, next to plain pinned copies
       |          tuning        the same with other chunks, buffers, threads
       |          collectives   workers on one GPU, next to copies within the GPU
       |          latency       small collectives, and where their time goes
       |          nccl          our plane with one rank, next to bare calls of cupy
       |          waiting       how a worker waits for the GPU
       |
       +------ report      Markdown and JSON

    bounded.py: a process with a deadline; stand.py: how often, by which clock; figures.py: a figure and what
    it is compared with; data.py: arrays; crew.py: measures on all workers of a session at once
"""
