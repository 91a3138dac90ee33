"""Pure values and formulas: no input or output, no clock, no randomness of their own."""
