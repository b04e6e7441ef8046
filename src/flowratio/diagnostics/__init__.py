"""Read-only checks of a fitted ratio."""
