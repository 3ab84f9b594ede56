"""The controller: sessions, references, cells on their way, results."""
