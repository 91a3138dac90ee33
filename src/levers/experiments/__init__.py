"""Closes the loop between algorithms and what they study: worlds, Python functions, comparisons."""
