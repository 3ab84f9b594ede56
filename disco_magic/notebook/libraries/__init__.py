"""Libraries that know one notebook, used by several workers at once; all of it is undone at unload."""
