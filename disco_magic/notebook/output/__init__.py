"""What cells on workers write and show, from `print` on a worker to the screen."""
