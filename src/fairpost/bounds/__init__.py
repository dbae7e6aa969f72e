"""The theorems: bounds on alpha without simulation, from the law of one entry of pi_S. Pure functions of counts and noise."""
