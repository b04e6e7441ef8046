"""Stage 0: a mixed table ↔ a matrix of floats."""
