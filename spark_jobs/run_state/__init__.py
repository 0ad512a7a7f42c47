"""What a running driver leaves for others to read: lock, heartbeat, log, progress.

Belongs here: documents and locks that driver and observers share. Does not belong here: judging
them (`orchestration.supervision`).
"""
