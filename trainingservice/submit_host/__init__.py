"""Where a scheduler takes commands, and where the files of its jobs are: this machine, or a login node through SSH."""
