"""What a program has started."""
import pathlib


def family(pid):
    """The process, those that any of its threads has started, and they."""
    out = [pid]
    for one in out:
        for children in pathlib.Path(f"/proc/{one}/task").glob("*/children"):
            try:
                out += map(int, children.read_text().split())
            except OSError:  # it has ended
                pass
    return out
