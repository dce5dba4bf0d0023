"""TensorBoard of chosen trials: a process of that package beside the web server, shown through it."""
