/* kinora.loss/1: the training objective, and the meaning of a model's output.                 since ABI 1.0
 *
 * A diffusion loss owns the noise distribution and the preconditioning; the same five formulas train the
 * model and turn it into the denoiser that a sampler calls. A loss without noise (next-token, reconstruction)
 * has only `evaluate`. All elementwise statistics are computed in at least float32.
 * All tensors of one call are on one device, any; what the call makes is on it too. */
#ifndef KINORA_ABI_LOSS_H
#define KINORA_ABI_LOSS_H
#include "kinora/abi/host.h"
#include "kinora/abi/noise.h"
#include "kinora/abi/options.h"
#include "kinora/abi/tensor.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_LOSS "kinora.loss/1"

typedef struct kinora_loss {
  uint32_t struct_size;
  uint32_t mix; /* KINORA_MIX_*: the meaning of its sigma */
  /* [any-thread] */
  void* (*create)(const kinora_host*, const kinora_options*);
  void (*destroy)(void* self);
  /* [owner-thread] uniform in (0, 1) float64 [B] or [B, T] -> noise level sigma of the same shape, by the
   * inverse of the cumulative distribution function. The host draws `uniform`, so that draws do not depend on
   * the layout. Null: a loss without noise. */
  int32_t (*level)(void* self, kinora_tensor uniform, kinora_tensor* sigma);
  /* [owner-thread] latent [B, ...], noise of the same shape, sigma [B] or [B, T] -> x, the noisy latent. */
  int32_t (*noisy)(void* self, kinora_tensor latent, kinora_tensor noise, kinora_tensor sigma,
                   kinora_tensor* x);
  /* [owner-thread] The model's inputs for x at sigma: `latent`, of x's shape, and `timestep`, of sigma's
   * shape. */
  int32_t (*input)(void* self, kinora_tensor x, kinora_tensor sigma, kinora_tensor* latent,
                   kinora_tensor* timestep);
  /* [owner-thread] x, output [B, ...] of one shape, sigma as above -> the clean latent x0 that the output
   * represents. */
  int32_t (*estimate)(void* self, kinora_tensor x, kinora_tensor sigma, kinora_tensor output,
                      kinora_tensor* x0);
  /* [owner-thread] in: the manifest's inputs by name, including the model's outputs by their names (`output`
   * also as `prediction`). out: the manifest's outputs in its order, first `loss` [B]: one number per sample,
   * a mean over its elements. The caller divides the sum by the global number of samples. A loss whose
   * derivative is not that of its number (distribution matching) has an output `grad` of its first input's
   * shape: the derivative of a sample's `loss` by that input, times the sample's elements. Its other inputs
   * get none. */
  int32_t (*evaluate)(void* self, const kinora_named* in, uint64_t n_in, kinora_tensor* out, uint64_t n_out);
} kinora_loss;

KINORA_SLOT(kinora_loss, struct_size, 0);
KINORA_SLOT(kinora_loss, mix, 4);
KINORA_SLOT(kinora_loss, create, 8);
KINORA_SLOT(kinora_loss, destroy, 16);
KINORA_SLOT(kinora_loss, level, 24);
KINORA_SLOT(kinora_loss, noisy, 32);
KINORA_SLOT(kinora_loss, input, 40);
KINORA_SLOT(kinora_loss, estimate, 48);
KINORA_SLOT(kinora_loss, evaluate, 56);
KINORA_SIZE(kinora_loss, 64);
KINORA_EXTERN_C_END
#endif
