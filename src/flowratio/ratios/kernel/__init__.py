"""Ratios that are sums of kernels. They need no torch."""
