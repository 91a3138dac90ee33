"""Structural causal models to try algorithms on. They never see an algorithm."""
