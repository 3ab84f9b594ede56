"""Arrays as pictures: plain data to HTML, SVG and PNG. With numpy alone: no widget, no JavaScript."""
