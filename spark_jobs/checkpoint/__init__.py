"""What Spark's checkpoint contains: committed offsets, watermarks, and the shape of the transform.

Belongs here: reading the checkpoint, and checking that a query may resume from it, also by
another version of Spark. Does not belong here: this project's own state documents
(`sources.state`).
"""
