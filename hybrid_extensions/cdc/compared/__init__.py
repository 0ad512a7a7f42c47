"""What comparisons and repairs of a captured table share: both tables, ranges of keys, rows."""
