"""What runs when: the chain's steps, as Dagster assets and as a command line."""
