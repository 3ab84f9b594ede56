"""Sharded parameters: file formats, who gets which part, and what workers do to read it."""
