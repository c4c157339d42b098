"""A Transformer small enough that every number of it can be seen, dragged and proved right or wrong."""
