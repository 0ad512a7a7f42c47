"""Merging of rows and changes into the target: clauses, keys, order, deletes.

Belongs here: what one micro-batch of a merge does. Does not belong here: appending rows
(`appending`), and replacing ranges of them, which an extension does.
"""
