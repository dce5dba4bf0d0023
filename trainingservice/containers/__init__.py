"""Trials whose command runs in a container of podman or docker, on platforms that start trials on machines."""
