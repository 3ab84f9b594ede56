"""Sharded parameters: file formats, which worker gets which part, and how workers read it."""
