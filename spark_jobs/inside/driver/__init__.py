"""Driver: runs queries one after the other, reports, watches retention, discovers files.

Belongs here: threads and steps of one running driver. Does not belong here: building the query
(`query`), or starting and stopping drivers (`launch`).
"""
