"""What is in a value: described, compared, looked at, wherever it lives, and without running its code."""
