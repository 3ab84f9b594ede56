"""Results, registers, statistics and findings as tables. Waits for no worker longer than a moment."""
