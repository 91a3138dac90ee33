"""Studies: events in, state folded, verdict out. The only part that keeps anything."""
