"""Places of sources in the query's union, one module for each kind of source."""
