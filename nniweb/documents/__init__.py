"""What experiments, trials and clusters look like as JSON: the same for REST, pages, frames and commands."""
