"""Adapts libraries that expect one notebook to several workers; all of it is undone at unload."""
