/* kinora.sampler/1: turns noise into a sample by calling a denoiser.                          since ABI 1.0
 *
 * The sampler owns the grid of noise levels and the update rule, but no model. It keeps its history in the
 * instance, so one instance serves one generation at a time; make any number of instances, on any thread.
 * Same noise, same seed, same options: same bits, whatever the world size (random draws come from run->noise,
 * with another key at each step).
 * All tensors of one sample() are on the device of `noise`: x, sigma, x0, and the sample. */
#ifndef KINORA_ABI_SAMPLER_H
#define KINORA_ABI_SAMPLER_H
#include "kinora/abi/host.h"
#include "kinora/abi/noise.h"
#include "kinora/abi/options.h"
#include "kinora/abi/run.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_SAMPLER "kinora.sampler/1"

typedef struct kinora_denoiser {
  uint32_t struct_size;
  uint32_t needs; /* rule 11 */
  void* self;
  /* [owner-thread] Clean sample x0 for x [B, ...] at noise level sigma: [B], or [B, T] for a video, one per
   * latent frame; float64, on x's device. x, sigma: borrowed. out: a new tensor of x's shape and device,
   * float64, owned by the caller.
   * The sampler returns an error (including KINORA_ERROR_CANCELLED) unchanged. */
  int32_t (*denoise)(void* self, kinora_tensor x, kinora_tensor sigma, kinora_tensor* out);
  /* Index into levels() at which sampling begins; above 0, `noise` of sample() is x at that level (video to
   * video). */
  int64_t first;
} kinora_denoiser;

typedef struct kinora_sampler {
  uint32_t struct_size;
  uint32_t mix; /* KINORA_MIX_*: how x of its denoiser calls is mixed; defines the unit of its levels */
  /* [any-thread] New instance with options already checked against the manifest; null and set_error on
   * failure. */
  void* (*create)(const kinora_host*, const kinora_options*);
  void (*destroy)(void* self);
  /* [owner-thread] Noise levels that sample() will visit, descending, in the unit of the clean data, float64
   * [N] on the CPU; owned by the caller. Ends in 0 if the last step reaches it. */
  int32_t (*levels)(void* self, kinora_tensor* out);
  /* [owner-thread] noise: [B, ...] float64, unit variance (but see denoiser.first), borrowed. out: the
   * sample, owned by the caller. Each call begins with an empty history: a sampler of several steps reads
   * nothing of the call before. progress(step, of, x0) may return KINORA_ERROR_CANCELLED: stop then, release
   * everything, return it. */
  int32_t (*sample)(void* self, const kinora_denoiser*, kinora_tensor noise, const kinora_run*,
                    kinora_tensor* out);
} kinora_sampler;

KINORA_SLOT(kinora_denoiser, struct_size, 0);
KINORA_SLOT(kinora_denoiser, needs, 4);
KINORA_SLOT(kinora_denoiser, self, 8);
KINORA_SLOT(kinora_denoiser, denoise, 16);
KINORA_SLOT(kinora_denoiser, first, 24);
KINORA_SIZE(kinora_denoiser, 32);
KINORA_SLOT(kinora_sampler, struct_size, 0);
KINORA_SLOT(kinora_sampler, mix, 4);
KINORA_SLOT(kinora_sampler, create, 8);
KINORA_SLOT(kinora_sampler, destroy, 16);
KINORA_SLOT(kinora_sampler, levels, 24);
KINORA_SLOT(kinora_sampler, sample, 32);
KINORA_SIZE(kinora_sampler, 40);
KINORA_EXTERN_C_END
#endif
