"""The additive model: how it is fitted, and what the fit is evidence of."""
