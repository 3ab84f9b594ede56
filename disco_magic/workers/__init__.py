"""One worker: its ordered lane and its urgent one, and where an interrupt may strike."""
