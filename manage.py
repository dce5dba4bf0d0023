#!/usr/bin/env python
"""The command line of a checkout: serve, worker, launch, experiments, token and Django's own commands."""

from nniweb.command_line.program import main

if __name__ == "__main__":
    main()
