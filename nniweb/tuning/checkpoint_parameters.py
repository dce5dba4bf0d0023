"""The parameters by which PBT's trials hand checkpoints on."""

#: The folder that a trial loads, where it is there, and the one that it saves to.
LOAD_KEY, SAVE_KEY = "load_checkpoint_dir", "save_checkpoint_dir"
