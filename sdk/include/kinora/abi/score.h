/* kinora.score/1-draft.1: how good samples are, as a few numbers: metrics and rewards.        draft
 *
 * A score keeps statistics of the samples that it has seen, so that a mean over samples and a number of a
 * whole distribution (a Frechet distance) have one form. Ranks that see different samples have an instance
 * each; their states are merged in the order of the ranks.
 *
 * Calls that take a run end with KINORA_ERROR_CANCELLED soon after it was asked to stop; the run's device is
 * that of `in`.
 *
 * Draft: it becomes 1.0 when rewards of single samples (reinforcement learning) have been built on it. */
#ifndef KINORA_ABI_SCORE_H
#define KINORA_ABI_SCORE_H
#include "kinora/abi/host.h"
#include "kinora/abi/options.h"
#include "kinora/abi/run.h"
#include "kinora/abi/tensor.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_SCORE "kinora.score/1-draft.1"

typedef struct kinora_score {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] New instance, which has seen nothing. Null and set_error on failure. */
  void* (*create)(const kinora_host*, const kinora_options*);
  void (*destroy)(void* self);
  /* [owner-thread] Adds samples. in: the manifest's inputs by name, borrowed, on any device; without
   * gradients. An error leaves the statistics unchanged. */
  int32_t (*update)(void* self, const kinora_run*, const kinora_named* in, uint64_t n_in);
  /* [owner-thread] All samples that this instance has seen, as float64 [S] on the CPU; owned by the caller.
   * S may depend on the samples; it may be 0. */
  int32_t (*state)(void* self, kinora_tensor* out);
  /* [owner-thread] Adds the samples of another instance with the same options: its state, borrowed. They come
   * after the samples that are already here. KINORA_ERROR_INVALID for a state that is none of this score. */
  int32_t (*merge)(void* self, kinora_tensor state);
  /* [owner-thread] The numbers of the samples so far, the manifest's outputs in its order: n_out of them.
   * More samples may follow. KINORA_ERROR_UNSUPPORTED: these samples define no number (a covariance of one
   * vector); the host then leaves the score out. */
  int32_t (*compute)(void* self, double* out, uint64_t n_out);
  /* [owner-thread] The number of each sample alone, such as a reward: out[i] is what compute() would give as
   * the manifest's first output after sample i and no other. `in` as in update, where dimension 0 counts the
   * n_samples samples. The statistics stay. KINORA_ERROR_UNSUPPORTED: one of these samples has no number.
   * Null: no sample has one alone. */
  int32_t (*each)(void* self, const kinora_run*, const kinora_named* in, uint64_t n_in, double* out,
                  uint64_t n_samples);
} kinora_score;

KINORA_SLOT(kinora_score, struct_size, 0);
KINORA_SLOT(kinora_score, reserved, 4);
KINORA_SLOT(kinora_score, create, 8);
KINORA_SLOT(kinora_score, destroy, 16);
KINORA_SLOT(kinora_score, update, 24);
KINORA_SLOT(kinora_score, state, 32);
KINORA_SLOT(kinora_score, merge, 40);
KINORA_SLOT(kinora_score, compute, 48);
KINORA_SLOT(kinora_score, each, 56);
KINORA_SIZE(kinora_score, 64);
KINORA_EXTERN_C_END
#endif
