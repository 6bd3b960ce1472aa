/* A disk that syncs slowly: syncs take SLOW_SYNC_MS milliseconds longer. For LD_PRELOAD of the store's server. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_for_the_disk(void) {
  const char *told = getenv("SLOW_SYNC_MS");
  long ms = told ? atol(told) : 0;
  struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

int fdatasync(int fd) { wait_for_the_disk(); return syscall(SYS_fdatasync, fd); }
int fsync(int fd) { wait_for_the_disk(); return syscall(SYS_fsync, fd); }
