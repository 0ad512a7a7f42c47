"""The plan of a file source: its files, their order, and those that arrive later.

Belongs here: in which order and in which micro-batches files are read, when another round of
listing is due, what is found in a folder that keeps growing, and until when a snapshot stays open.
"""
