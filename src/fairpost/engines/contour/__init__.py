"""Contour integrals: `simplex` and `pos` under Laplace and Gaussian noise, one law of the threshold r for both."""
