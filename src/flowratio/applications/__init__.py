"""Stage 7: from a ratio to an answer."""
