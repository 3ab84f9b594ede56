"""Data planes: they move arrays between workers and know no session."""
