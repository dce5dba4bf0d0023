"""Code variants: what one trial has instead of files of the experiment's code. Checked, kept, shown."""
