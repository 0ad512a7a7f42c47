"""Places of sources in the query's union: planned files, a growing folder, a snapshot, topics.

Belongs here: how a source's rate limit becomes a pause between micro-batches, when a source is read
to its end, when the query is built again (as larger files have arrived, the seam is passed, or the
small first micro-batch is committed), and how far each was read.
"""
