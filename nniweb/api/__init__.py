"""REST for people and programs, one file per resource."""
