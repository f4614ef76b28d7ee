/* kinora.workers/1-draft.2: stages in processes of their own.                                 draft
 *
 * A crash in a decoder, an endless loop or unbounded memory then costs only the current sample. A worker is
 * one instance of a stage in one process that processes many samples, one after the other. A sample crosses
 * with its key, its byte fields and its CPU tensors; large ones cross in shared memory that the other side
 * maps. Emitted samples come back one at a time, and the stage waits until each was taken. A worker inherits
 * the environment variables that programs need to run, and those that options of its stage name (options that
 * end in "_env", such as api_key_env). It receives the credentials of a storage when it has to read from that
 * storage. An engine whose host does not provide this interface calls its stages directly.
 *
 * A worker leads a process group of its own. It ends with the process that started it, however that ends, and
 * processes that its stage started end with it, except those that left the group (setsid). Its stdout and
 * stderr go to the log of the process that started it when the call is over; of long output only the last
 * lines.
 *
 * Held inputs (hold()) are lost with their worker. After a death the engine must fail each of them, or try
 * them again in another worker, each alone to find the one that caused it. finish() ends the stage's work as
 * it does in the same process: every held input is emitted, dropped, failed or stored by then; stop the
 * worker after it and call nothing else. Samples that were emitted before a death have been passed on: a
 * second attempt at their input must emit the same keys in the same order, and the engine skips those it has;
 * otherwise the input fails. A death in finish() concerns all held inputs.
 *
 * Draft: it becomes 1.0 together with kinora.engine. */
#ifndef KINORA_ABI_WORKERS_H
#define KINORA_ABI_WORKERS_H
#include "kinora/abi/stage.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_WORKERS "kinora.workers/1-draft.2"

typedef struct kinora_worker kinora_worker; /* opaque */

typedef struct kinora_worker_spec {
  uint32_t struct_size;
  uint32_t reserved;
  const char* name;         /* name of the stage in the run, for messages */
  const char* id;           /* component */
  const char* options_json; /* canonical JSON */
  double hang;     /* seconds without a sign of life (an emitted sample, progress(), cancelled()) before it is
                      killed; 0: never */
  uint64_t memory; /* bytes at which it is killed: its own and shared memory that it made, not files that it
                      maps. 0: no limit */
  double limit;    /* seconds at one sample before it is killed, whatever its signs of life; waiting until an
                      emitted sample is taken    does not count. 0: no limit */
  uint64_t together; /* bytes that all workers of this program may hold together, counted as for `memory`;
                        above it, the busy worker that holds most is killed. 0: no limit */
} kinora_worker_spec;

typedef struct kinora_workers_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] Starts a process and waits until it has made its instance. The worker is released by stop().
   * If the process is killed meanwhile (SIGKILL, as for lack of memory), it is started again twice, then the
   * status is KINORA_ERROR_NO_MEMORY. If it ends in another way, or has not made the instance within ten
   * minutes: KINORA_ERROR_FAILED. KINORA_ERROR_CANCELLED: the program was asked to stop. */
  int32_t (*start)(const kinora_worker_spec*, kinora_worker** out);
  /* [owner-thread] Ends the process, busy or not. */
  void (*stop)(kinora_worker*);
  /* [worker-thread] As in kinora_stage. Signs of life of the stage arrive as progress(self, 0, 0, null) of the run, at
   * most one in 10 ms. If the process ended instead of answering: KINORA_ERROR_FAILED with a
   * message such as "killed by signal 11 (SIGSEGV)", and ended() is 1 from then on; stop the worker and start
   * another. */
  int32_t (*process)(kinora_worker*, kinora_sample* in, const kinora_emit*, const kinora_run*);
  int32_t (*finish)(kinora_worker*, const kinora_emit*, const kinora_run*);
  int32_t (*ended)(const kinora_worker*);
  /* [any-thread] Id of the process, for messages and figures. */
  int64_t (*pid)(const kinora_worker*);
  /* [any-thread] Fills *out in (KINORA_FILL) with the result of resources(), from an instance made for this
   * in a process of its own: a constructor that crashes is an error here, as in start(), with a message that
   * says how it ended. The answer for a component with the same options is cached.
   * `isolated` is also 1 for a stage whose plugin is not of the program's built-in folder. */
  int32_t (*ask)(const kinora_worker_spec*, kinora_resources* out);
  /* [any-thread] After each call of the stage `id` in this process, on the same thread: the host puts back what the
   * stage changed of its process (the modes of floating-point arithmetic, the umask, handlers of signals) and names
   * the stage in a warning. */
  void (*over)(const char* id);
} kinora_workers_api;

KINORA_SLOT(kinora_worker_spec, struct_size, 0);
KINORA_SLOT(kinora_worker_spec, reserved, 4);
KINORA_SLOT(kinora_worker_spec, name, 8);
KINORA_SLOT(kinora_worker_spec, id, 16);
KINORA_SLOT(kinora_worker_spec, options_json, 24);
KINORA_SLOT(kinora_worker_spec, hang, 32);
KINORA_SLOT(kinora_worker_spec, memory, 40);
KINORA_SLOT(kinora_worker_spec, limit, 48);
KINORA_SLOT(kinora_worker_spec, together, 56);
KINORA_SIZE(kinora_worker_spec, 64);
KINORA_SLOT(kinora_workers_api, struct_size, 0);
KINORA_SLOT(kinora_workers_api, reserved, 4);
KINORA_SLOT(kinora_workers_api, start, 8);
KINORA_SLOT(kinora_workers_api, stop, 16);
KINORA_SLOT(kinora_workers_api, process, 24);
KINORA_SLOT(kinora_workers_api, finish, 32);
KINORA_SLOT(kinora_workers_api, ended, 40);
KINORA_SLOT(kinora_workers_api, pid, 48);
KINORA_SLOT(kinora_workers_api, ask, 56);
KINORA_SLOT(kinora_workers_api, over, 64);
KINORA_SIZE(kinora_workers_api, 72);
KINORA_EXTERN_C_END
#endif
