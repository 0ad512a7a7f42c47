"""Publishing consistent cuts: which tables belong to one, and when their versions are one.

Belongs here: the publisher, which opens barriers and waits for the drivers of all tables. Does not
belong here: the barrier's documents and the table of the cuts (sources.cuts), and merging.
"""
