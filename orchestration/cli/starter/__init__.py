"""`hybrid init`: starters for files and for tables of a database."""
