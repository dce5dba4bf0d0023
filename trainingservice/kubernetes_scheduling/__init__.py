"""Labels, annotations, tolerations, priority classes and queues of pods, for all platforms on Kubernetes."""
