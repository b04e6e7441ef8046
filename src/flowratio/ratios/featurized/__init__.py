"""Ratios in latent space."""
