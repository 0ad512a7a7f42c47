"""Declaration of a source: files or topics, event time, bad records, rate.

Belongs here: which fields a source has and which exclude each other, which event times count, what
happens to bad records, and which rate limit applies now.
"""
