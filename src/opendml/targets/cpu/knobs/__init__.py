"""Every knob of the CPU's schedules and code, a file and a class for each stage that reads them.

Nobody makes one of these classes alone, and each method that ``dataclass`` would give them takes a part of a
millisecond of every start: ``Tuning`` has all of them.
"""
