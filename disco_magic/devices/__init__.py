"""GPUs as places where workers compute: their streams, copies to and from them, and which GPUs exist."""
