"""REST for people and programs, a folder for each subject."""
