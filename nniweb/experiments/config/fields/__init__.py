"""The fields of an experiment file: walked, described, edited one by one."""
