"""REST: trials, their attempts, output and files."""
