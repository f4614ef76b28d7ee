/* kinora/abi/run.h: the run that a call is part of.                                           since ABI 1.0
 *
 * The device. A stage or a source works where it likes; device_type and device_id say which device the engine
 * has reserved for it, and what it hands on is in memory of the CPU (sample.h). For every other component they
 * are the device of the call's tensors. */
#ifndef KINORA_ABI_RUN_H
#define KINORA_ABI_RUN_H
#include "kinora/abi/tensor.h"
KINORA_EXTERN_C_BEGIN

typedef struct kinora_run {
  uint32_t struct_size;
  uint32_t needs;      /* rule 11 */
  int32_t device_type; /* KINORA_DL_CPU, KINORA_DL_CUDA */
  int32_t device_id;   /* from 0; 0 for the CPU */
  int32_t n_threads;   /* number of threads that this call may use, the calling one included; at least 1 */
  uint32_t reserved;
  /* The cudaStream_t to enqueue work on. Null: libtorch's current stream of the calling thread, which is the
   * device's default stream unless somebody set another. Who hands on memory of the CPU waits for its own work;
   * nobody else waits for the device. */
  void* stream;
  uint64_t
      seed; /* the run's seed, 0 in a job without a stage that `draws` (plugin.toml); noise() includes it */
  kinora_str out; /* path or URI of the folder for files that belong to this job; empty: none */
  void* self;
  /* [owner-thread] `done` of `of` steps are done. preview: null, or a borrowed tensor whose meaning the
   * interface states. KINORA_ERROR_CANCELLED asks to stop: release everything and return it. May be called
   * any number of times. Null: progress is not reported. */
  int32_t (*progress)(void* self, int64_t done, int64_t of, kinora_tensor preview);
  /* [any-thread] KINORA_OK or KINORA_ERROR_CANCELLED; cheap, for long loops. */
  int32_t (*cancelled)(void* self);
  /* [owner-thread] Standard normal numbers of like's shape, dtype and device: a function of (seed, key, sample,
   * element) only, so the same at every world size. Dimension 0 of `like` is the batch; the host knows the
   * batch's global sample numbers. A second draw with the same key gives the same numbers: use another key for
   * each draw of a call, such as "step/3". Calls that continue one video chunk by chunk may use the same keys:
   * the host mixes the chunk into them. May be null for stages and engines, which have no batch. */
  int32_t (*noise)(void* self, const char* key, kinora_tensor like, kinora_tensor* out);
} kinora_run;

KINORA_SLOT(kinora_run, struct_size, 0);
KINORA_SLOT(kinora_run, needs, 4);
KINORA_SLOT(kinora_run, device_type, 8);
KINORA_SLOT(kinora_run, device_id, 12);
KINORA_SLOT(kinora_run, n_threads, 16);
KINORA_SLOT(kinora_run, reserved, 20);
KINORA_SLOT(kinora_run, stream, 24);
KINORA_SLOT(kinora_run, seed, 32);
KINORA_SLOT(kinora_run, out, 40);
KINORA_SLOT(kinora_run, self, 56);
KINORA_SLOT(kinora_run, progress, 64);
KINORA_SLOT(kinora_run, cancelled, 72);
KINORA_SLOT(kinora_run, noise, 80);
KINORA_SIZE(kinora_run, 88);
KINORA_EXTERN_C_END
#endif
