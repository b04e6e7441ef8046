"""The automatic choice among ratios."""
