"""Every knob of the CPU's schedules and code, a file and a class for each stage that reads them."""
