"""What a trial has of its machine beside GPUs: processors and main memory."""
