"""What `benchmarks.gpu` measures on one GPU, a section per process: a hang costs one section.

::

    gpu.py --- checks      tests/gpu, a process per file; tell.py: each test's outcome as it ends
       |
       +------ launch      python -m benchmarks.gpus SECTION: one line of JSON per figure, as it is made
       |          copies        host <-> GPU through staging buffers, beside plain pinned copies
       |          tuning        the same with other chunks, buffers, threads
       |          collectives   workers on one GPU, beside copies within the GPU
       |          latency       small collectives, and where their time goes
       |          nccl          our plane with one rank, beside bare calls of cupy
       |          waiting       how a worker waits for the GPU
       |
       +------ report      Markdown and JSON

    stand.py: how often, by which clock; figures.py: a figure and what it is compared with; data.py: arrays;
    crew.py: measuring on all workers of a session at once
"""
