"""What a look at a captured table sees: its definition, its publication, and what was altered."""
