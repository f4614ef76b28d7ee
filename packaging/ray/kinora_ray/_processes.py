"""Processes of this machine, and the memory that they hold."""
import contextlib
import os


def table():
    """{pid: (its parent, bytes of memory that are its own alone)} of all processes."""
    out = {}
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError, KeyError):  # it has ended, or is the kernel's
            if entry.name.isdigit():
                with open(f"/proc/{entry.name}/status") as file:
                    status = dict(line.split(":", 1) for line in file)
                out[int(entry.name)] = int(status["PPid"]), int(status["RssAnon"].split()[0]) << 10
    return out


def below(roots, processes):
    """Those of the table that are in `roots`, and all that they have started."""
    out = []
    for pid in processes:
        above = pid
        while above in processes and above not in roots:
            above = processes[above][0]
        if above in roots:
            out.append(pid)
    return out


def largest(parent, title, bound):
    """Of the processes that `parent` has started with this title, and of what they have started: (pid, its bytes, bytes
    of all) of the largest one, if all together hold more than `bound` bytes; else None."""
    processes, roots = table(), set()
    for pid in processes:
        if processes[pid][0] == parent:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline") as words:
                roots |= {pid} if words.read().startswith(title) else set()
    held = {pid: processes[pid][1] for pid in below(roots, processes)}
    if sum(held.values()) <= bound:
        return None
    most = max(held, key=held.get)
    return most, held[most], sum(held.values())
