"""SQL on the columns of one row, and names in SQL."""
