"""The timeline as a picture: what workers did and when."""
