"""Launchers bring workers up, watch them and take them down."""
