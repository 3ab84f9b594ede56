"""What PyTorch keeps once per process or per thread, for each worker."""
