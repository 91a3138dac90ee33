"""How many runs, and how sure: tails, sums of losses, certificates, looks, limits."""
