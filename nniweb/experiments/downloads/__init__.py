"""What people take away: tables of trials, output, kept files."""
