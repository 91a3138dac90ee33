"""Contracts that every implementation must keep, for this project's own tests and for those of extensions."""
