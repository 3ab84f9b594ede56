"""Cells and programs: compiled by the controller, executed in a worker's own namespace."""
