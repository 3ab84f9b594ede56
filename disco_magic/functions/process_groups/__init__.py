"""Process groups of PyTorch whose members are workers."""
