"""Reading of files in planned order, from a plan stored as a Delta log."""
