"""What all platforms on Kubernetes share: the API, watches, pods, keepers, tokens, storages."""
