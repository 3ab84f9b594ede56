"""``%disco registers``: a live table of registers, with a closer look at one of them."""
