"""The program ``nniweb``: its commands and their completion in shells."""
