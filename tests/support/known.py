"""Write known_refused.jsonl, known_loose.jsonl and known_wrong.jsonl anew, as fairpost is today: read the difference before it is kept.

python tests/support/known.py [--only NAME]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import fairpost as fp
from support.cases import COARSE, ENGINES, FOLDER, answer_of, coarse, covers, known, loose, table, wrong
from support.data import Missing


def main() -> None:
    """Every row and engine; rows whose file is not here keep their lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows whose names hold one of these words, with commas between")
    given = parser.parse_args()
    lists = {what: dict(known(what)) for what in ("refused", "loose", "wrong")}
    for case in table():
        if not any(word in case.name for word in given.only.split(",")):
            continue
        try:
            case.counts()
        except Missing:
            continue
        if coarse(case):
            for rtol in COARSE:
                lists["wrong"].pop((case.name, f"exact {rtol:g}"), None)
                try:
                    off = wrong(case, case.asked(fp.Exact(rtol=rtol)))
                except (fp.ToleranceError, fp.UnsupportedError):
                    continue
                if off:
                    lists["wrong"][case.name, f"exact {rtol:g}"] = off.split(": ", 1)[1]
                    print("WRONG at a coarse tolerance", off, flush=True)
        for engine in ENGINES:
            key = (case.name, engine)
            for held in lists.values():
                held.pop(key, None)
            if not covers(case, engine):
                continue
            start = time.process_time()
            result = answer_of(case, engine)
            took = time.process_time() - start
            if isinstance(result, str):
                lists["refused"][key] = result.split(": ", 1)[-1][:90]
            elif isinstance(result, fp.Audit):
                if engine != "monte-carlo" and loose(case, result):
                    lists["loose"][key] = (
                        f"{result.method}: alpha {result.alpha.value:.3g} within {result.alpha.half_width:.1e}"
                    )
                if off := wrong(case, result):
                    lists["wrong"][key] = off.split(": ", 1)[1]
                    print("WRONG", off, flush=True)
            if took > 2:
                print(f"slow {took:.1f} s: {case.name} {engine}", flush=True)
    order = {case.name: k for k, case in enumerate(table())}
    for what, held in lists.items():
        keys = sorted((key for key in held if key[0] in order), key=lambda key: (order[key[0]], key[1]))
        lines = [json.dumps({"case": name, "engine": engine, "why": held[name, engine]}) for name, engine in keys]
        path = FOLDER / f"known_{what}.jsonl"
        path.write_text("".join(line + "\n" for line in lines)) if lines else path.unlink(missing_ok=True)
        print(f"{path.name}: {len(lines)}")


if __name__ == "__main__":
    main()
