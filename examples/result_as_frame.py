"""Reading a result as a frame: one row per entity and rule, to sort, group and join like any other table.

Every row says that it was computed from true counts: the table is as confidential as the counts. `to_pandas()` gives the same to
pandas, `to_csv()`, `to_excel()` and `to_html()` write files, `loc` finds one entity, `to_dict()` and `from_dict()` go to JSON and back.
"""

import json

import polars as pl

import fairpost as fp
from fairpost.datasets import synthetic_districts

districts = synthetic_districts(500)
found = fp.compare(districts, fp.Laplace.from_epsilon(0.01), ["baseline", "pos"], budget=1e8)

frame = found.to_frame()
print(frame.select("id", "count", "rule", "bias_money").sort("bias_money").head(3))

small = (pl.col("count") < 1000).alias("below 1000")
print(frame.group_by("rule", small).agg(pl.len(), pl.sum("bias_money")).sort("rule", "below 1000"))

print(found.loc[frame["id"][0]]["pos"])

text = json.dumps(found.to_dict(entities=True))
again = fp.Comparison.from_dict(json.loads(text))
print(f"{len(text):,} bytes of JSON, read back: {again.to_frame().equals(frame)}")
