"""Machines reached over SSH: trials run under keepers that an agent on each machine starts."""
