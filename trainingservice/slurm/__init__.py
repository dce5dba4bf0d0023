"""Jobs of a Slurm cluster: submitted, watched and canceled by its own commands, here or on a login node."""
