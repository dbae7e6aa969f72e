"""A process that draws a part of the noise and writes it to its standard output: called by `noise.py`, never by people.

It gets a law and a number, and no count. It leaves no core file.
"""

import json
import sys


def main() -> None:
    """Draw and send."""
    task = json.loads(sys.argv[1])
    sys.path[:] = task["path"]
    from fairpost.release.guard import harden
    from fairpost.release.noise import BLOCK, Law, in_process

    harden()
    for mechanism, scale, n in task["laws"]:
        law, left = Law(mechanism, float.fromhex(scale)), n
        while left:
            some = in_process(law, min(left, BLOCK))
            sys.stdout.buffer.write(some.tobytes())
            left -= some.size
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
