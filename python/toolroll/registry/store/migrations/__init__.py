"""How the schema came to be what `tables` says, one step a file. Steps are never edited once released."""
