"""Shares where nothing is clipped, without a transform: a closed form under Gaussian noise, and moments to eighth order."""

from __future__ import annotations

import math

import numpy as np

import fairpost as fp


def gaussian_shares(x, a, sigma):
    """Bias and mean squared error of z_i/S, z = a X, where S > 0 is all but certain, to 1e-14 of each.

    (z_i, S) is jointly normal: with k_i = a_i^2 / sum a^2, z_i = c_i + k_i (S - E S) + a rest of variance
    a_i^2 sigma^2 (1 - k_i) independent of S. So z_i/S - P_i = (P_i - k_i)(W/S - 1) + rest/S with W = E[S], and with
    S = W + u and -u taken together every integrand is positive: E[W/S - 1] = E[u^2/(W^2 - u^2)].
    """
    x, a = np.array(x), np.array(a)
    whole, v2 = float(np.dot(a, x)), float(np.dot(a, a))
    node, weight = np.polynomial.legendre.leggauss(300)
    reach = min(14.0, 0.98 * whole / (sigma * np.sqrt(v2)))
    u = sigma * np.sqrt(v2) * reach * (node + 1) / 2
    mass = weight * reach * np.exp(-0.5 * (reach * (node + 1) / 2) ** 2) / np.sqrt(2 * np.pi)
    once = np.sum(mass * u**2 / (whole**2 - u**2))
    twice = np.sum(mass * ((u / (whole + u)) ** 2 + (u / (whole - u)) ** 2)) / 2
    inverse = np.sum(mass * (1 / (whole + u) ** 2 + 1 / (whole - u) ** 2)) / 2
    gap = a * x / whole - a**2 / v2
    return gap * once, gap**2 * twice + (a * sigma) ** 2 * (1 - a**2 / v2) * inverse


def moments_of(noise):
    """E[eta^k] for k = 0, ..., 12: Laplace k! b^k, whole-number noise by its masses."""
    if isinstance(noise, fp.Laplace):
        return [math.factorial(k) * noise.scale**k if k % 2 == 0 else 0.0 for k in range(13)]
    points = np.arange(-2000, 2001)
    mass = noise.density(points)
    return [math.fsum(mass * points.astype(float) ** k) if k % 2 == 0 else 0.0 for k in range(13)]


def expanded_shares(x, a, moments, order=8):
    """E[e/S] and E[e^2/S^2], e = z_i - P_i S, in powers of the noises eta_j: polynomials with known expectations."""
    n, whole = x.size, float(np.dot(a, x))
    p = a * x / whole

    def expect(e, power, shift):
        """E[e^power (1/S)^power] = whole^-power sum_k binomial(-power, k) E[e^power (D/whole)^k], D = sum a eta."""
        total = 0.0
        for k in range(order + 1):
            sign = (-1) ** k * (1 if power == 1 else k + 1)
            total += sign * linear_product(e, power, a / whole, k)
        return total / whole**power

    def linear_product(e, power, w, k):
        """E[(sum e_j eta_j)^power (sum w_j eta_j)^k] by the multinomial theorem, entity after entity."""
        table = np.zeros((power + 1, k + 1))
        table[0, 0] = 1.0
        for j in range(n):
            new = np.zeros_like(table)
            for r in range(power + 1):
                for s in range(k + 1):
                    if table[r, s] == 0:
                        continue
                    for i in range(power + 1 - r):
                        for l in range(k + 1 - s):
                            ways = math.comb(power - r, i) * math.comb(k - s, l)
                            new[r + i, s + l] += table[r, s] * ways * e[j] ** i * w[j] ** l * moments[i + l]
            table = new
        return table[power, k]

    bias, mse = np.empty(n), np.empty(n)
    for i in range(n):
        e = -p[i] * a
        e[i] += a[i]
        bias[i], mse[i] = expect(e, 1, 0), expect(e, 2, 0)
    return bias, mse
