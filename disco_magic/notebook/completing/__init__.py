"""Tab completion with the names of the workers."""
