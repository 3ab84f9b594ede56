"""Per-worker versions of what a process has once: programs on worker threads find what processes would."""
