"""Ratios from the logit of a classifier. They need no torch."""
