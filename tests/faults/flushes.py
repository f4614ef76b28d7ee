#!/usr/bin/env python3
"""What is left after a power cut: each kept file is flushed before it has its name, and the folder of these names once,
after the last of them and before the job says that it has ended.
usage: flushes.py KINORA ROOT SCRATCH"""
import os, pathlib, shutil, subprocess, sys

KINORA, ROOT, SCRATCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void note(const char* what, const char* path) {
  char line[PATH_MAX + 16];
  int n = snprintf(line, sizeof line, "%s %s\n", what, path);
  int to = open(getenv("FLUSHES"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (to < 0 || write(to, line, n) != n) abort();
  close(to);
}
int fsync(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  path[n < 0 ? 0 : n] = 0;
  note("fsync", path);
  return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
int rename(const char* from, const char* to) {
  note("from", from);
  note("to", to);
  return ((int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename"))(from, to);
}
"""
RUN = """[run]
out = "{out}"
[[job]]
name = "clips"
kind = "curate"
input = "{videos}"
stages = ["video.probe",
  {{ use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, preset = "ultrafast", \
    max_height = 64 }}]
"""


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    videos, library, out, log = SCRATCH / "videos", SCRATCH / "flushes.so", SCRATCH / "out", SCRATCH / "flushes.txt"
    videos.mkdir(parents=True)
    shutil.copy2(ROOT / "tests/data/bbb_A.mp4", videos / "a.mp4")
    shutil.copy2(ROOT / "tests/data/bbb_B.mp4", videos / "b.mp4")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", library, "-ldl"], input=SOURCE, text=True,
                   check=True)
    (SCRATCH / "run.toml").write_text(RUN.format(out=out, videos=videos))
    subprocess.run([KINORA, "run", SCRATCH / "run.toml"], check=True, timeout=120,
                   env={**os.environ, "LD_PRELOAD": str(library), "FLUSHES": str(log)})
    data, lines = out / "clips/data", log.read_text().splitlines()
    named = [lines.index(f"to {file}") for file in data.iterdir()]
    assert len(named) >= 4, lines
    for at in named:
        temporary = lines[at - 1].removeprefix("from ")
        assert lines.index(f"fsync {temporary}") < at, lines[at - 1]
    flushed = [at for at, line in enumerate(lines) if line == f"fsync {data}"]
    assert len(flushed) == 1 and max(named) < flushed[0] < lines.index(f"to {out / 'clips/items.jsonl'}"), lines
    print("ok")


main()
