"""Stage 1: two samples in, rows of p (y = 1) and of q (y = 0)."""
