"""Files of the installation: the data folder, what is kept in it, and the program's own."""
