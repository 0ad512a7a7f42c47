"""Expected content of the target, computed by DuckDB from the raw input."""
