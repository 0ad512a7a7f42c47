"""Change of the whole table that readers see: promotion, its rollback, groups of them, its lock."""
