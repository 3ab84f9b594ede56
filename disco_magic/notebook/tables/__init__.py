"""How results, registers, numbers and what was found look. Never talks to workers."""
