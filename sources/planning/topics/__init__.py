"""The plan of a topic: its start, its range, its columns, and the end of the seam before it.

Belongs here: the expected start and the end of the seam, the range of a bounded topic, whether
sampled records fit, and the topics that were created again.
"""
