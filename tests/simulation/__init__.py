"""The product's own decisions on a store, a broker and clocks that are simulated from a seed."""
