"""Real browsers, databases, fleets and loads, and counts of broken promises: for tests and benchmarks."""
