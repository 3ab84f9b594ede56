"""Measurements of disco_magic and of what people use instead, taken side by side: ``python -m benchmarks``.

::

    __main__ --- group (control, data, notebook, growth) --- rows: what is compared, targets
        |
        +-- side: one process each, launched in turn, round after round
              control|data|notebook|growth   ours, through the public interface
              floor                          the least any implementation needs (bare queues, bare copies)
              peer_tvm peer_mpi peer_ipyparallel
                 each prints one JSON line per measurement: key, seconds per operation of every repeat
        |
        +-- table: medians with quartiles, ratio, target
"""
