"""How Spark reads files: from their plan, which is a Delta log, in planned order."""
