"""The ``%disco`` subcommands, grouped by topic; `table.COMMANDS` has all of them."""
