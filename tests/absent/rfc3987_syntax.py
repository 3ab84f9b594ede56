"""In the place of a package that no test needs: see `tests.kernels.ABSENT`."""

raise ImportError("left out by the tests")
