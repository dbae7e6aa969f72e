"""The paper, reproduced: every table and figure, published value beside ours, and where they differ and why."""

from fairpost.paper.reproduce import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
