"""Disks that refuse every lock: a small library takes the place of flock and fcntl for files below a folder."""
import os, subprocess

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
    int locks = what == F_SETLK || what == F_SETLKW || what == F_GETLK || what == F_OFD_SETLK ||           \
                what == F_OFD_GETLK || what == F_OFD_SETLKW;                                               \
    return locks && refused(fd) ? -1 : next(fd, what, given);                                              \
  }
FCNTL(fcntl)
FCNTL(fcntl64)
"""


def built(folder):
    """Builds the library in a folder; below it nothing can be locked."""
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", folder / "no_locks.so", "-ldl"],
                   input=SOURCE, text=True, check=True)


def lockless(folder, error):
    """The environment of a program for which it is so, with this errno."""
    return {**os.environ, "LD_PRELOAD": str(folder / "no_locks.so"), "NO_LOCKS": str(error),
            "NO_LOCKS_BELOW": str(folder), "TMPDIR": str(folder / "tmp")}
