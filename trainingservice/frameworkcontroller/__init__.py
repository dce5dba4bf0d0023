"""FrameworkController: each trial is a Framework of task roles."""
