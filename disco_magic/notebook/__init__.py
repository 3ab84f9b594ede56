"""The notebook front end: magics, output routing, rendering. Only here are IPython and traitlets imported."""
