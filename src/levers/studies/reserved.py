"""The columns of tables and run sheets that are not factors."""

RESERVED = ("trial", "block", "order", "outcome", "state", "stage", "worker", "asked_at", "told_at")
"""Names that a factor of a study cannot have, in any case."""
