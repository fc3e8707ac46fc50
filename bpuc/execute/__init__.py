"""Float execution of graphs."""
