"""What is true of one kind of processor only: a folder a target."""
