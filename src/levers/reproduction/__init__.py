"""Every experiment of the paper: sweeps, results that can be interrupted, figures, claims, report."""
