"""Control plane: channels move messages and know nothing about them."""
