"""The pages of one experiment: a head that is the same on all, and a tab for each subject."""
