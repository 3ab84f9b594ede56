"""Results, registers, statistics and findings as tables. Never talks to workers."""
