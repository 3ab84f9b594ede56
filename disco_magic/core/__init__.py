"""The pure core: messages, registers, the two machines. Standard library only; no thread, lock or clock."""
