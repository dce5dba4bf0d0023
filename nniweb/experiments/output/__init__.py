"""What trials wrote to stdout and stderr: pieces in the database, and of trials that ended long ago in the storage."""
