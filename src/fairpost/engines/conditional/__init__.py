"""Simulation with each entity's own noise integrated in closed form: conditional means at quasi-random points."""
