"""What a process has once, for each worker: workers are threads, and programs find what processes would."""
