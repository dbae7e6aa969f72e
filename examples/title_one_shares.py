"""Title I shares: what noise costs school districts when counts of poor children steer money.

The districts are SYNTHETIC. "baseline" clips negative counts and then shares in proportion; "pos" shares first and projects
the shares. Both add up to the whole budget. The cost of privacy is what would have to be added so that no district expects
less than its due.
"""

import fairpost as fp
from fairpost.datasets import synthetic_districts

BUDGET = 6.5e9
districts = synthetic_districts(2000)
noise = fp.Laplace.from_epsilon(0.01)

for result in fp.compare(districts, noise, ["baseline", "pos"], budget=BUDGET):
    loss = result.largest_loss
    who = loss.id
    print(f"{result.postprocess}: district {who} expects to lose ${loss.value * BUDGET:,.0f} a year;")
    print(f"    the cost of privacy is ${result.cost_of_privacy.amount.value:,.0f}")

# What an outside analyst can say who has the noisy counts alone: shares, and an interval for each true share.
noisy = districts.values + noise.sample(districts.n, fp.Stream(seed=7))
shares = fp.allocate(noisy, districts.weights, "pos", noise, budget=BUDGET, ids=districts.ids)
largest = int(shares.argmax())
low, high = shares.interval.low[largest] * BUDGET, shares.interval.high[largest] * BUDGET
print(f"From noisy counts: district {shares.ids[largest]} gets ${shares.money[largest]:,.0f},")
print(f"    and the true counts would give it ${low:,.0f} to ${high:,.0f}")
