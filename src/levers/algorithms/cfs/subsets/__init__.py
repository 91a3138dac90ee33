"""Levers that may be left to nature: which of them to set, and to what (docs/theory/left_alone.md)."""
