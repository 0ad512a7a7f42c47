"""What the target has to hold, computed by DuckDB from the raw input."""
