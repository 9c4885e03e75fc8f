/* Makes fdatasync fail as a broken disk does, while the file that FSYNC_FAILS names is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int fd) {
  const char *path = getenv("FSYNC_FAILS");
  if (path != NULL && access(path, F_OK) == 0) {
    errno = EIO;
    return -1;
  }
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  return real(fd);
}
