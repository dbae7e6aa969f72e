"""The paper, reproduced: every table and figure, published value beside ours, and where they differ and why.

`tables`, `figures` and `theorems` compute, `published` compares, `page` and `folder` write, `reproduce` does all of it.
"""

from fairpost.paper.reproduce import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
