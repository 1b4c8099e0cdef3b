"""Explanations, profiles, drawings and the limits of the machine, for people."""
