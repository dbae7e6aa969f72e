"""The command `fairpost`, and `python -m fairpost`."""

import os
import signal
import sys
from types import FrameType


def run() -> None:
    """Run the command line. A Ctrl-C while it is still being loaded ends with the same line as a later one.

    Nothing has been opened yet, so the process may end at once: an exception would have to pass through half-made imports,
    some of which turn it into another one.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    from fairpost.cli import main

    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, before)
    try:
        main()
    except SystemExit as end:
        if end.code == 130:  # a thread that still compiles or computes is not waited for
            os._exit(130)
        raise


def _end(number: int, frame: FrameType | None) -> None:
    os.write(sys.stderr.fileno(), b"fairpost: interrupted, nothing was written\n")
    os._exit(130)


if __name__ == "__main__":
    run()
