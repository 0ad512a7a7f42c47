"""CSV files: the options of a dialect, the reader, whole records, and values of their columns."""
