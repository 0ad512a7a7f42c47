"""State that a running driver leaves for others to read: locks, heartbeat, log, progress.

Belongs here: documents and locks that the driver and its observers share. Does not belong here:
judging them (`orchestration.supervision`).
"""
