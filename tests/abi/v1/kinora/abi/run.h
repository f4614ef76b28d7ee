/* kinora/abi/run.h: the run that a call is part of.                                           since ABI 1.0
 */
#ifndef KINORA_ABI_RUN_H
#define KINORA_ABI_RUN_H
#include "kinora/abi/tensor.h"
KINORA_EXTERN_C_BEGIN

typedef struct kinora_run {
  uint32_t struct_size;
  int32_t device_type; /* KINORA_DL_CPU, KINORA_DL_CUDA */
  int32_t device_id;   /* from 0; 0 for the CPU */
  int32_t n_threads;   /* number of threads that this call may use, the calling one included; at least 1 */
  void* stream; /* the device's stream: enqueue work here and never synchronise. Null: the device's default */
  uint64_t seed;  /* the run's seed, 0 in a job without a stage that `draws` (plugin.toml); noise() includes it */
  kinora_str out; /* path or URI of the folder for files that belong to this job; empty: none */
  void* self;
  /* [owner-thread] `done` of `of` steps are done. preview: null, or a borrowed tensor whose meaning the
   * interface states. KINORA_ERROR_CANCELLED asks to stop: release everything and return it. May be called
   * any number of times. Null: progress is not reported. */
  int32_t (*progress)(void* self, int64_t done, int64_t of, kinora_tensor preview);
  /* [any-thread] KINORA_OK or KINORA_ERROR_CANCELLED; cheap, for long loops. */
  int32_t (*cancelled)(void* self);
  /* [owner-thread] Standard normal numbers of like's shape and dtype: a function of (seed, key, sample,
   * element) only, so the same at every world size. Dimension 0 of `like` is the batch; the host knows the
   * batch's global sample numbers. May be null for stages and engines, which have no batch. */
  int32_t (*noise)(void* self, const char* key, kinora_tensor like, kinora_tensor* out);
} kinora_run;

KINORA_SLOT(kinora_run, struct_size, 0);
KINORA_SLOT(kinora_run, device_type, 4);
KINORA_SLOT(kinora_run, device_id, 8);
KINORA_SLOT(kinora_run, n_threads, 12);
KINORA_SLOT(kinora_run, stream, 16);
KINORA_SLOT(kinora_run, seed, 24);
KINORA_SLOT(kinora_run, out, 32);
KINORA_SLOT(kinora_run, self, 48);
KINORA_SLOT(kinora_run, progress, 56);
KINORA_SLOT(kinora_run, cancelled, 64);
KINORA_SLOT(kinora_run, noise, 72);
KINORA_SIZE(kinora_run, 80);
KINORA_EXTERN_C_END
#endif
