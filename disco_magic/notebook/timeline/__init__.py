"""What workers did and when, as a picture."""
