"""Plain Kubernetes: each trial is a Job. For clusters without an operator."""
