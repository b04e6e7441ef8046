"""Ratios from networks and flows."""
