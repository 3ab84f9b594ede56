"""What is in a value: described, compared and shown, wherever it lives, and without running its code."""
