"""The places of sources in the query's union: one for each kind of source."""
