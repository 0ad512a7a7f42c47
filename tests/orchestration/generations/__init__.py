"""Cases of generations next to each other, and what acts on one of them."""
