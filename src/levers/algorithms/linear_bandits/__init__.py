"""Peers from the literature on linear bandits: every assignment is an arm, and the model is additive."""
