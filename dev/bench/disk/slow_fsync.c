/* Makes fsync and fdatasync of a process take a millisecond longer, as they do on a cloud disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static int later(const char *name, int fd) {
  struct timespec left = {0, 1000000};
  while (nanosleep(&left, &left) != 0) {
  }
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  return real(fd);
}

int fsync(int fd) {
  return later("fsync", fd);
}

int fdatasync(int fd) {
  return later("fdatasync", fd);
}
