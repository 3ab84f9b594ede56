"""Threads of Python: locks that a fork leaves free, waits, stacks, turns, times."""
