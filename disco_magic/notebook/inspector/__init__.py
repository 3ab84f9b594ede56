"""``%disco registers``: a live table of registers, and one of them looked at closely."""
