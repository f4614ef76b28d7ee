#!/usr/bin/env python3
"""Disks that refuse every lock, as some network and FUSE file systems do: curation, its continuation, shards and their index work without locks, and the
log says so once a folder. A small library takes the place of flock and fcntl.
usage: no_locks.py KINORA ROOT SCRATCH"""
import json, os, pathlib, shutil, subprocess, sys

KINORA, ROOT, SCRATCH = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve()
DATA, LIBRARY = ROOT / "tests/data", SCRATCH / "no_locks.so"
# Locks of files below SCRATCH alone, so that the program's own files elsewhere keep theirs.
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int refused(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  path[n < 0 ? 0 : n] = 0;
  if (!strstr(path, getenv("NO_LOCKS_BELOW"))) return 0;
  errno = atoi(getenv("NO_LOCKS"));
  return 1;
}
int flock(int fd, int what) {
  int (*next)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
  return refused(fd) ? -1 : next(fd, what);
}
#define FCNTL(name)                                                                                        \
  int name(int fd, int what, ...) {                                                                        \
    va_list all;                                                                                           \
    va_start(all, what);                                                                                   \
    void* given = va_arg(all, void*);                                                                      \
    va_end(all);                                                                                           \
    int (*next)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, #name);                          \
    int locks = what == F_SETLK || what == F_SETLKW || what == F_GETLK || what == F_OFD_SETLK || what == F_OFD_GETLK || what == F_OFD_SETLKW; \
    return locks && refused(fd) ? -1 : next(fd, what, given);                                              \
  }
FCNTL(fcntl)
FCNTL(fcntl64)
"""
JOBS = """[run]
out = "{out}"
[[job]]
name = "clips"
kind = "curate"
input = "{films}"
stages = ["video.probe", {{ use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, preset = "ultrafast", max_height = 64 }}]
[[job]]
name = "shards"
kind = "shard"
input = "clips"
"""


def kinora(error, *args, code=0):
    lockless = {"LD_PRELOAD": str(LIBRARY), "NO_LOCKS": str(error), "NO_LOCKS_BELOW": str(SCRATCH), "TMPDIR": str(SCRATCH / "tmp")} if error else {}
    done = subprocess.run([KINORA, *map(str, args)], capture_output=True, text=True, timeout=300, env={**os.environ, **lockless})
    assert done.returncode == code, (error, args, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def items(out):
    return sorted(json.loads(line)["key"] for line in (out / "clips/items.jsonl").read_text().splitlines())


def check(error):
    folder = SCRATCH / str(error)
    (folder / "films").mkdir(parents=True)
    shutil.copy2(DATA / "bbb_A.mp4", folder / "films/a.mp4")
    file, out = folder / "run.toml", folder / "out"
    file.write_text(JOBS.format(out=out, films=folder / "films"))
    said = kinora(error, "run", file)
    said_of = [line for line in said.splitlines() if "cannot be locked" in line]
    assert len(said_of) == len(set(said_of)) and any(f"{out}:" in line for line in said_of) and any(f"{out / 'clips'}:" in line for line in said_of), said
    first = items(out)
    shutil.copy2(DATA / "bbb_B.mp4", folder / "films/b.mp4")
    kinora(error, "run", file)  # opens the record again, and adds to it
    both = items(out)
    assert set(first) < set(both), (first, both)
    assert "0 problems" in kinora(error, "data", "verify", out / "shards"), error
    kinora(error, "data", "index", out / "shards", "--again")
    # Where locks work, the same folder is read and continued.
    shutil.copy2(DATA / "bbb_A.mp4", folder / "films/c.mp4")
    kinora(0, "run", file)
    assert set(both) < set(items(out)), items(out)


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    (SCRATCH / "tmp").mkdir(parents=True)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", LIBRARY, "-ldl"], input=SOURCE, text=True, check=True)
    for error in (37, 38, 95, 524):  # ENOLCK, ENOSYS, EOPNOTSUPP, ENOTSUPP
        check(error)
        print("ok   ", os.strerror(error), flush=True)


main()
