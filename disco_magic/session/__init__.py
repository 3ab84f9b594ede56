"""The controller: sessions, references, running cells and their results."""
