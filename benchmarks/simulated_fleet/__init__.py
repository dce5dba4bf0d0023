"""What ``benchmarks/fleet.py`` runs: rows of running trials, their platform, and the program that is their keepers."""
