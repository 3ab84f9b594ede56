"""Compares disco_magic side by side with what people use instead: ``python -m benchmarks``.

::

    __main__ --- group (control, data, notebook, growth) --- rows: what is compared, targets
        |
        +-- side: one process each, launched in turn, round after round
              control|data|notebook|growth   ours, through the public interface
              floor                          the minimum for any implementation (bare queues, bare copies)
              peer_tvm peer_mpi peer_ipyparallel
                 each prints one JSON line per measurement: key, seconds per operation of every repeat
        |
        +-- table: medians with quartiles, ratio, target
"""
