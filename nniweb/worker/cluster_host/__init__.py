"""What a worker holds for a cluster: its service object, its GPU book, its tuners."""
