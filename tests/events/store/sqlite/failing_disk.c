/*
 * Fails as a broken disk does, for files of a database: each call while the file is there that a variable names.
 *   DATA_SYNC_FAILS: fdatasync, by which the store syncs the log
 *   SYNC_FAILS: fsync of the database itself, by which SQLite ends a checkpoint
 *   WRITE_FAILS: all writing, as of a file system that the kernel has made read-only
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(const char *variable) {
  const char *path = getenv(variable);
  return path != NULL && access(path, F_OK) == 0;
}

/* 1 if a file's name ends with a text, or is that of the log of one that does. */
static int is(int fd, const char *end, const char *end_of_log) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  size_t n = strlen(end), m = strlen(end_of_log);
  return ((size_t)length > n && strcmp(path + length - n, end) == 0) ||
         (m > 0 && (size_t)length > m && strcmp(path + length - m, end_of_log) == 0);
}

int fdatasync(int fd) {
  if (fails("DATA_SYNC_FAILS")) {
    errno = EIO;
    return -1;
  }
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  return real(fd);
}

int fsync(int fd) {
  if (fails("SYNC_FAILS") && is(fd, ".db", "")) {
    errno = EIO;
    return -1;
  }
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  return real(fd);
}

ssize_t write(int fd, const void *bytes, size_t count) {
  if (fails("WRITE_FAILS") && is(fd, ".db", ".db-wal")) {
    errno = EROFS;
    return -1;
  }
  ssize_t (*real)(int, const void *, size_t) =
      (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  return real(fd, bytes, count);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
  if (fails("WRITE_FAILS") && is(fd, ".db", ".db-wal")) {
    errno = EROFS;
    return -1;
  }
  ssize_t (*real)(int, const void *, size_t, off64_t) =
      (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
  return real(fd, bytes, count, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
  return pwrite64(fd, bytes, count, at);
}
