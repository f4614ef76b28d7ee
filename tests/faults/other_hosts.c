/* Faults that plugins of other programs had, each after a public report; other_hosts.py chooses one by a macro and
 * says how it must end. Without a macro: a stage that keeps every sample and notes what it finds of its process
 * (whether a denormal number survives arithmetic, the umask, the working directory, what Ctrl-C does) and the first
 * byte of the sample's frames. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include "kinora/abi/plugin.h"
#include "kinora/abi/stage.h"

static const kinora_host* the_host;
static const kinora_samples_api* samples;

#ifdef STATIC_TLS
__thread char much[1 << 20] __attribute__((tls_model("initial-exec")));
#endif
#ifdef SIGILL_IN_CONSTRUCTOR
__attribute__((constructor)) static void opened(void) { __builtin_trap(); }
#endif

static void* for_ever(void* unused) {
  for (;;) sleep(1);
  return unused;
}

static void* create(const kinora_host* host, const kinora_options* options) {
  (void)options;
#ifdef THREAD_LEFT
  pthread_t thread;
  pthread_create(&thread, NULL, for_ever, NULL);
  pthread_detach(thread);
#endif
#ifdef PRINTS
  puts("hello from create()");
#endif
  (void)for_ever;
  return (void*)host;
}
static void destroy(void* self) { (void)self; }

static int32_t resources(void* self, kinora_resources* out) {
  kinora_resources one = {.struct_size = sizeof one, .cores = 1};
#ifdef SIZE_FORGOTTEN
  one.struct_size = 0;
  one.ordered = 77;
#endif
  (void)self;
  KINORA_FILL(out, &one);
  return KINORA_OK;
}

static int32_t fails(int32_t code, const char* text) {
  the_host->set_error(the_host, code, text);
  return code;
}

/* Tensors that no reader can use; returns how many of the nine the host takes. */
static int unusable_tensors(kinora_sample* in) {
  static int64_t shape[2] = {2, 2}, strides[2] = {2, 1}, negative[2] = {2, -2}, far[2] = {INT64_MAX / 2, 8},
                 columns[2] = {1, 2};
  static int32_t numbers[4];
  const kinora_dl_tensor good = {numbers, KINORA_DL_CPU, 0, 2, KINORA_DL_INT, 32, 1, shape, strides, 0};
  kinora_dl_tensor wrong[9];
  int taken = 0;
  for (int i = 0; i < 9; ++i) wrong[i] = good;
  wrong[0].device_type = KINORA_DL_CUDA;
  wrong[1].data = NULL;
  wrong[2].bits = 0;
  wrong[3].lanes = 0;
  wrong[4].shape = negative;
  wrong[5].shape = far;
  wrong[6].strides = columns;
  wrong[7].byte_offset = UINT64_MAX;
  wrong[8].code = 99;
  for (int i = 0; i < 9; ++i) {
    kinora_dl_managed one = {.major = 1, .tensor = wrong[i]};
    if (samples->set_tensor(in, "x", &one) == KINORA_OK) ++taken, samples->remove(in, "x");
  }
  return taken;
}

/* Writes to a clone of the first video's sample, which shares its bytes. */
static void write_to_a_clone(kinora_sample* in) {
  const kinora_str key = samples->key(in), name = {"clone", 5};
  const kinora_dl_tensor* frames;
  kinora_bytes text;
  kinora_sample* clone;
  if (key.size == 5 && memcmp(key.data, "bbb_B", 5) == 0) return;
  if (samples->clone(in, name, &clone) != KINORA_OK) return;
  if (samples->get(clone, "txt", &text) == KINORA_OK) ((char*)text.data)[0] ^= 1;
  if (samples->get_tensor(clone, "frames", &frames) == KINORA_OK) ((unsigned char*)frames->data)[0] ^= 255;
  samples->release(clone);
}

/* Waits until the run is cancelled, for 20 s at most; the file MARK says that it does. */
static int32_t wait_for_the_end(const kinora_run* run) {
#ifdef MARK
  close(open(MARK, O_CREAT | O_WRONLY, 0600));
#endif
  for (int i = 0; i < 2000; ++i) {
    const int32_t status = run->cancelled(run->self);
    if (status != KINORA_OK) return status;
    usleep(10000);
  }
  return KINORA_OK;
}

/* What this process is like, and the sample, as JSON. */
static void describe(const kinora_sample* in, char* text, size_t size) {
  volatile double small = 1e-310;
  const double half = small * 0.5;
  const kinora_dl_tensor* frames;
  const int first =
      samples->get_tensor(in, "frames", &frames) == KINORA_OK ? ((unsigned char*)frames->data)[0] : -1;
  unsigned mask = 0;
  char line[256];
  FILE* status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status)) sscanf(line, "Umask: %o", &mask);
  if (status) fclose(status);
  struct sigaction interrupt;
  sigaction(SIGINT, NULL, &interrupt);
  char folder[512];
  snprintf(text, size,
           "{\"denormal\": %s, \"first\": %d, \"umask\": %u, \"folder\": \"%s\", \"interrupt\": \"%s\"}",
           half > 0 ? "true" : "false", first, mask, getcwd(folder, sizeof folder) ? folder : "",
           interrupt.sa_handler == SIG_IGN   ? "ignored"
           : interrupt.sa_handler == SIG_DFL ? "ends the process"
                                             : "handled");
}

typedef struct call {
  kinora_sample* in;
  const kinora_emit* emit;
  int32_t status;
} call;

static void* on_a_thread(void* user) {
  call* c = user;
#ifdef ERROR_ON_A_THREAD
  c->status = fails(KINORA_ERROR_DATA, "of another thread");
#else
  samples->retain(c->in);
  c->status = c->emit->emit(c->emit->self, c->in);
#endif
  return NULL;
}

static int32_t process(void* self, kinora_sample* in, const kinora_emit* emit, const kinora_run* run) {
  (void)self;
  if (run->needs) return fails(KINORA_ERROR_UNSUPPORTED, "needs of the run");
#ifdef MARK
  const int32_t ended = wait_for_the_end(run);
  if (ended != KINORA_OK) return ended;
#endif
#ifdef WRITES_TO_A_CLONE
  write_to_a_clone(in);
#endif
#ifdef SURROUNDINGS
  umask(0777);
  if (chdir("/") != 0) return fails(KINORA_ERROR_IO, "chdir");
  signal(SIGINT, SIG_IGN);
#endif
#ifdef STATIC_TLS
  much[0] = 1;
#endif
#ifdef TENSORS
  char text[64];
  snprintf(text, sizeof text, "%d of 9 unusable tensors were taken", unusable_tensors(in));
  return fails(KINORA_ERROR_DATA, text);
#endif
#ifdef LATER_SLOT
  const void* const* slots = (const void* const*)((const char*)samples + sizeof *samples);
  void (*later)(void) = (void (*)(void))slots[7];
  later();
#endif
#ifdef FORKS
  if (fork() == 0) exit(0);
  wait(NULL);
#endif
#if defined EMIT_ON_A_THREAD || defined ERROR_ON_A_THREAD
  call c = {in, emit, 0};
  pthread_t thread;
  pthread_create(&thread, NULL, on_a_thread, &c);
  pthread_join(thread, NULL);
#ifdef EMIT_ON_A_THREAD /* the error of a thread of its own is said on the thread that returns it */
  if (c.status != KINORA_OK) return fails(c.status, "emit() on a thread of this stage");
#endif
  return c.status;
#endif
  (void)unusable_tensors, (void)on_a_thread, (void)write_to_a_clone, (void)wait_for_the_end;
  char found[1024];
  describe(in, found, sizeof found);
#ifdef CLEAN /* while a call of another stage lasts it may see what that changes; what is left is seen twice */
  char before[sizeof found];
  do {
    strcpy(before, found);
    usleep(20000);
    describe(in, found, sizeof found);
  } while (strcmp(before, found) != 0);
#endif
  const kinora_bytes json = {found, strlen(found)};
  samples->set(in, "json", json, NULL, NULL);
#ifndef NOT_RETAINED
  samples->retain(in);
#endif
  return emit->emit(emit->self, in);
}

static const kinora_stage table = {.struct_size = sizeof table,
                                   .create = create,
                                   .destroy = destroy,
                                   .resources = resources,
                                   .process = process};
static const kinora_component component = {sizeof component, 0,    "stage/" NAME, KINORA_INTERFACE_STAGE,
                                           &table,           NULL, NULL};
static const kinora_plugin plugin = {sizeof plugin, 1, 0, 1, NAME, "0.1.0", &component};
KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host);
KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host) {
  the_host = host;
  samples = host->get_interface(host, KINORA_INTERFACE_SAMPLES, 0);
  return samples ? &plugin : NULL;
}
