"""Files of other programs: what they are, how they are read and written."""
