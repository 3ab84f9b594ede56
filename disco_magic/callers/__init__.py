"""Whose code is calling, from where, and stand-ins for what a process has only once."""
