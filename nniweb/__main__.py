"""``python -m nniweb`` is ``nniweb``."""

from nniweb.command_line.program import main

if __name__ == "__main__":
    main()
