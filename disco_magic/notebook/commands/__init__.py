"""The ``%disco`` subcommands, by what they are about; `table.COMMANDS` has all of them."""
