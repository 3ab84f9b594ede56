"""Arrays as pictures: plain data to HTML, SVG and PNG. With NumPy only: no widgets, no JavaScript."""
