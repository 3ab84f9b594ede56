"""What a worker can be asked to do: functions by name, cells, and the context both run in."""
