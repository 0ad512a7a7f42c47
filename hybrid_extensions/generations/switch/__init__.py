"""Change of the whole table that readers see: promotion, its rollback, groups of them, its lock.

Belongs here: whether a generation is ready to serve; the steps of a promotion or rollback, of one
pipeline or of several together; until when it can be given up; who is kept out meanwhile; and what
no rollback needs afterwards.
"""
