"""Per-worker versions of what PyTorch keeps once per process or per thread."""
