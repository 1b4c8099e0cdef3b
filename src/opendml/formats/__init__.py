"""Files of other programs: what they are, how they are read and written.

A format is a folder with two functions: ``recognises(first bytes)`` tells whether a file is of it, ``read(path)`` reads
one. What else is recognised, so that readers can say what they were given, stands in ``recognition.FORMATS``; a new
format has its line there.
"""
