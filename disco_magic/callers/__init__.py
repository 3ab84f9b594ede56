"""Whose code is calling, from where, and what stands in the place of what a process has once."""
