"""This processor: schedules, code and the team of threads that runs it."""
