"""Prints each skip of a script in a line that packaging/suite.py counts."""


def skip(name, reason):
    print(f"SKIPPED: {name}: {reason}", flush=True)
