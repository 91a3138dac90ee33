"""Certified factorial selection, the default solver."""
