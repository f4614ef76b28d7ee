"""Disks that refuse every lock, or map no file that others write too: a small library takes the place of flock, fcntl
and mmap for files below a folder."""
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
#include <sys/mman.h>
#include <unistd.h>
static int is_below(const char* folder, int fd) {
  char link[64], path[PATH_MAX];
  if (!folder || fd < 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  path[n < 0 ? 0 : n] = 0;
  return strstr(path, folder) != NULL;
}
static int refused(int fd) {
  if (!is_below(getenv("NO_LOCKS_BELOW"), fd)) return 0;
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
#define MMAP(name, offset)                                                                                 \
  void* name(void* at, size_t bytes, int may, int how, int fd, offset from) {                              \
    void* (*next)(void*, size_t, int, int, int, offset) =                                                  \
        (void* (*)(void*, size_t, int, int, int, offset))dlsym(RTLD_NEXT, #name);                          \
    if (!(how & MAP_SHARED) || !is_below(getenv("NO_MAPS_BELOW"), fd)) return next(at, bytes, may, how, fd, from); \
    errno = ENODEV;                                                                                        \
    return MAP_FAILED;                                                                                     \
  }
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)
"""


def built(folder):
    """Builds the library in a folder; below it nothing can be locked, or mapped."""
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", folder / "no_locks.so", "-ldl"],
                   input=SOURCE, text=True, check=True)


def lockless(folder, error):
    """The environment of a program for which it is so, with this errno."""
    return {**os.environ, "LD_PRELOAD": str(folder / "no_locks.so"), "NO_LOCKS": str(error),
            "NO_LOCKS_BELOW": str(folder), "TMPDIR": str(folder / "tmp")}


def mapless(folder, below):
    """The environment of a program that cannot map files below a folder for others to see."""
    return {**os.environ, "LD_PRELOAD": str(folder / "no_locks.so"), "NO_MAPS_BELOW": str(below)}
