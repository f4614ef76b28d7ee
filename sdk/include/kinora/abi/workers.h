/* kinora.workers/1: stages in processes of their own.                                         since ABI 1.0
 *
 * What a stage does to its process (a crash in a decoder, a loop without end, memory without end) then costs the sample at
 * hand and nothing else. A worker is one instance of a stage in one process that serves many samples, one after the other.
 * A sample crosses with its key, its byte fields and its tensors (of the CPU); what is large crosses in shared memory that
 * the other side maps. What the stage emits comes back one sample at a time, and the stage waits until it was taken. A
 * worker inherits of the environment what programs need to run, and what the options of its stage name (those that end in "_env", such
 * as api_key_env); the keys of storages are lent to it when what it is to read lies there. An engine that is offered no such
 * interface runs its stages by their tables.
 *
 * A worker leads a process group of its own. It ends with the process that started it, however that ends, and what its stage
 * has started ends with it; a process that has left the group (setsid) is on its own. What it writes to stdout and stderr goes
 * to the log of the process that started it when the call is over, the last lines of it where there are many.
 *
 * What a stage keeps back (hold()) lies in its worker and dies with it: after a death it is the engine that has to end each
 * of those samples, or to try them again in another worker, each alone if the guilty one is to be found. finish() ends the
 * stage's work as it does in the same process: whatever was kept back is emitted, dropped or stored by then, and a worker is
 * stopped after it and asked nothing more. What an input was made into before a death has gone on: a second attempt at it must
 * emit the same keys in the same order, up to there the engine takes them for what it has; else it fails. A death in finish() is
 * one over all samples that were kept back. */
#ifndef KINORA_ABI_WORKERS_H
#define KINORA_ABI_WORKERS_H
#include "kinora/abi/stage.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_WORKERS "kinora.workers/1"

typedef struct kinora_worker kinora_worker; /* opaque */

typedef struct kinora_worker_spec {
  uint32_t struct_size;
  uint32_t reserved;
  const char* name;         /* of the stage in the run: what messages call it */
  const char* id;           /* component */
  const char* options_json; /* canonical JSON */
  double hang;     /* seconds without a sign of life (a sample out, a step, a look at whether to stop) before it is killed; 0: never */
  uint64_t memory; /* bytes before it is killed: its own, and shared memory that it made; not files that it maps. 0: no limit */
  double limit;    /* seconds at one sample before it is killed, whatever signs of life it gives; waiting until what it emits is taken
                      does not count. 0: none */
  /* Appended to 1.0; absent where struct_size ends before it. */
  uint64_t together; /* bytes that all workers of this program may hold together, counted as for `memory`: above it, the one at work
                        that holds most is killed. 0: no limit */
} kinora_worker_spec;

typedef struct kinora_workers_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] Starts a process and waits until it has made its instance. The worker is released by stop(). A process that is
   * killed meanwhile (SIGKILL, as for lack of memory) is started again twice, then it is KINORA_NO_MEMORY; one that ends any
   * other way, or has made none in ten minutes, is KINORA_FAILED; KINORA_CANCELLED where the program is asked to stop. */
  int32_t (*start)(const kinora_worker_spec*, kinora_worker** out);
  /* [owner-thread] Ends the process, at work or not. */
  void (*stop)(kinora_worker*);
  /* [worker-thread] As in kinora_stage. Where the process ended instead of answering, KINORA_FAILED with a message such as
   * "killed by signal 11 (SIGSEGV)", and ended() is 1 from then on: stop it, and start another. */
  int32_t (*process)(kinora_worker*, kinora_sample* in, const kinora_emit*, const kinora_run*);
  int32_t (*finish)(kinora_worker*, const kinora_emit*, const kinora_run*);
  int32_t (*ended)(const kinora_worker*);
  /* [any-thread] Of the process; for messages and figures. */
  int64_t (*pid)(const kinora_worker*);
  /* Appended to 1.0; absent where struct_size ends before it.
   * [any-thread] What resources() of an instance says, which is made for this in a process of its own: a constructor that
   * crashes is an error here, as of start(), with a message that says how it ended. The answer of a component with the same
   * options is remembered. */
  int32_t (*ask)(const kinora_worker_spec*, kinora_resources* out);
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
KINORA_SIZE(kinora_workers_api, 64);
KINORA_EXTERN_C_END
#endif
