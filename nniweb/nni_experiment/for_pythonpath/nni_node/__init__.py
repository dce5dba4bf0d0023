"""What NNI imports to find the program that it starts for each experiment: here NNI Web's, beside this file."""
