"""Process groups of PyTorch's whose members are workers."""
