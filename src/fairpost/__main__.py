"""python -m fairpost."""

from fairpost.cli import main

main()
