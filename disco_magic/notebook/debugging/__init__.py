"""Debuggers and questions of workers, one at a time."""
