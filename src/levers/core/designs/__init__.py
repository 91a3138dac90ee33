"""Which rows to run: orthogonal arrays, searched and random designs, and the estimates they give."""
