"""State that a running driver leaves for others to read: locks, heartbeat, log, progress.

Belongs here: documents and locks that the driver and its observers share; whether a process is the
driver before it is ended (`driver_process`); when a lease has expired. Does not belong here:
judging them (`orchestration.supervision`).
"""
