"""State of a pipeline: documents about decisions and progress, by generation.

Belongs here: reading and writing versioned documents, the identity of a generation. Does not
belong here: what the documents say (their rooms declare them), and where they are stored
(`storage`).
"""
