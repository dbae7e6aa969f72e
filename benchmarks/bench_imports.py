"""Cold import, and the first call of a kernel with and without its cache."""

import subprocess
import sys
import tempfile

from timing import line


def seconds(code: str, env: dict[str, str] | None = None) -> float:
    import os

    probe = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    runs = [
        float(subprocess.run([sys.executable, "-c", probe], capture_output=True, encoding="utf-8", check=True,
                             env={**os.environ, **(env or {})}).stdout)
        for _ in range(3)
    ]  # fmt: skip
    return min(runs)


def main() -> None:
    cold = seconds("import fairpost")
    line("import fairpost", f"{cold:.3f} s", "at most 0.5 s", cold <= 0.5)
    line("  of which numpy", f"{seconds('import numpy'):.3f} s")
    call = "import fairpost as fp; fp.project_simplex([3.0, -1.0])"
    line("import and first projection, kernels cached", f"{seconds(call):.3f} s")
    with tempfile.TemporaryDirectory() as empty:
        code = f"import sys; {call}"
        once = subprocess.run(
            [sys.executable, "-c", f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"],
            capture_output=True, encoding="utf-8", check=True, env={"FAIRPOST_CACHE": empty, "PATH": ""},
        )  # fmt: skip
        line("import and first projection, nothing cached", f"{float(once.stdout):.3f} s")


if __name__ == "__main__":
    main()
