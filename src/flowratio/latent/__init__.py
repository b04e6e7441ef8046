"""Stage 4: scaling and flow in one transformer, x ↔ z."""
