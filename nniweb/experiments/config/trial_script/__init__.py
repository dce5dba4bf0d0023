"""What a config says of a trial's script: the parameters in its command, and where its metrics are read."""
