"""Debuggers and questions of workers, one at a time at the user's keyboard."""
