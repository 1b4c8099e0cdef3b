"""What schedules have chosen, as loop nests: a file for every kind of kernel."""
