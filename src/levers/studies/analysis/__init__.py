"""What the outcomes of a study say: estimates, evidence, views, diagnostics, tables."""
