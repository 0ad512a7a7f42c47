"""Declaration of a source: files or topics, event time, bad records, rate."""
