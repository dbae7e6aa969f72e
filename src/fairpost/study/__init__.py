"""What is asked, as one object: `Study`, its parts, and how it is saved and read.

`parts.py` declares every field once: its type, default, choices and help. `study.py` saves, reads and prints; `true.py`, `noisy.py`
and `released.py` have a type for each command, which reads its files and asks the verbs. It may use everything but the pages, the
live page and the command line, which are made from it.
"""

from fairpost.study.study import STUDIES, Study, read_study

__all__ = ["STUDIES", "Study", "read_study"]
