"""What the driver does next to the query: report, watch retention, discover files, switch sources.

Belongs here: threads and steps of one running driver. Does not belong here: building the query
(`query`), or starting and stopping drivers (`launch`).
"""
