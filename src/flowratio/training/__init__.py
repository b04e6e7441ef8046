"""The one training loop, for flows and networks."""
