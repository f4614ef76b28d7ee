/* Ends its process, never returns or says an unknown value: CMakeLists.txt says in which function and how. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void* crash(void* unused) {
  raise(SIGSEGV);
  return unused;
}
static inline void crash_on_a_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, crash, NULL);
  pthread_join(thread, NULL);
}
static inline void call_no_function(void) {
  void (*volatile none)(void) = (void (*)(void))8;
  none();
}

#include "minimal_stage.h"
#ifdef IN_STATIC_CONSTRUCTOR
__attribute__((constructor)) static void opened(void) { IN_STATIC_CONSTRUCTOR; }
#endif
MINIMAL_PLUGIN("ends", sizeof(kinora_plugin), 1, 0, "stage/ends", KINORA_INTERFACE_STAGE, &minimal_stage)
