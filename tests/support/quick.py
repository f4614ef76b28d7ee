#!/usr/bin/env python3
"""Shared first part of many tests, run once: configs/quickstart.toml with small settings, from the video to its
latents; and ports. usage: quick.py KINORA ROOT SCRATCH    runs it again"""
import pathlib, shutil, socket, subprocess, sys

FEW = ["tokenizer.steps=2", "tokenizer.frames=5", "tokenizer.height=32", "tokenizer.width=48", "latents.frames=5",
       "latents.height=32", "latents.width=48"]
_held = []


def make(kinora, root, folder):
    shutil.rmtree(folder, ignore_errors=True)
    sets = [a for s in FEW for a in ("--set", s)]
    subprocess.run([kinora, "run", str(root / "configs/quickstart.toml"), "--out", str(folder), "--only", "latents",
                    *sets], check=True, capture_output=True)


def begun(kinora, root, out, jobs=None):
    """A run's folder with everything before the training done, with the settings FEW, or only these of its jobs; CTest
    makes it beforehand (the fixture "quick")."""
    folder = pathlib.Path(out).parent.parent / "quick"
    if not (folder / "latents/summary.json").exists():
        make(kinora, root, folder)
    for job in jobs or [""]:
        shutil.copytree(folder / job, out / job)
    return out


def held_port():
    """Reserves a loopback port, so that no other process gets it; a listener that reuses addresses, such as the ranks',
    can still bind it."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    _held.append(s)
    return s.getsockname()[1]


if __name__ == "__main__":
    make(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
