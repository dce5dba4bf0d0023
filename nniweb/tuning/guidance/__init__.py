"""What leads a search besides its tuner: points that a person gives, and results of earlier experiments."""
