/* Euler's method on a cubic grid of noise levels from 20 to 0, each sampler with one defect. `ancestral` and
 * `repeats` add noise at each step (k-diffusion's "Euler ancestral"); the latter draws the same at each. */
#include <stdio.h>

#include "broken.h"
#include "kinora/abi/sampler.h"

enum { none, rising, half, memory, deaf, leak, crash, values, ancestral, repeats, careless };

typedef struct sampler {
  instance base;
  const kinora_tensors_api* tensors;
  int64_t steps;
} sampler;

static double level(const sampler* s, int64_t i) {
  const double left = 1 - (double)i / (double)s->steps;
  return 20 * left * left * left;
}

static void* create(const kinora_host* host, const kinora_options* given, int mode) {
  const kinora_options_api* options = host->get_interface(host, KINORA_INTERFACE_OPTIONS, 0);
  const kinora_tensors_api* tensors = options ? host->get_interface(host, KINORA_INTERFACE_TENSORS, 0) : NULL;
  int64_t steps = 0;
  if (!tensors || options->get_int(given, "steps", 0, &steps) != KINORA_OK) return NULL;
  sampler* s = calloc(1, sizeof *s);
  if (!s) return host->set_error(host, KINORA_ERROR_NO_MEMORY, "no memory"), NULL;
  s->base.host = host;
  s->base.mode = mode;
  s->tensors = tensors;
  s->steps = steps;
  return s;
}

static int32_t levels(void* me, kinora_tensor* out) {
  sampler* s = me;
  const int64_t n = s->steps + 1;
  void* data = NULL;
  int32_t status = s->tensors->empty(&n, 1, KINORA_DTYPE_FLOAT64, NULL, out);
  if (status != KINORA_OK || (status = s->tensors->data(*out, &data)) != KINORA_OK) return status;
  for (int64_t i = 0; i < n; ++i) ((double*)data)[i] = level(s, i);
  if (s->base.mode == rising) ((double*)data)[1] = 30;
  return KINORA_OK;
}

/* By Newton's method: nothing is linked for it. */
static double root(double v) {
  double x = v > 1 ? v : 1;
  for (int i = 0; i < 100; ++i) x = 0.5 * (x + v / x);
  return v > 0 ? x : 0;
}

/* Adds noise of deviation `up` to x. */
static int32_t stir(const sampler* s, const kinora_run* run, kinora_tensor x, int64_t numel, int64_t i,
                    double up) {
  char key[32];
  void *at = NULL, *drawn = NULL;
  kinora_tensor fresh = NULL;
  snprintf(key, sizeof key, "step/%d", s->base.mode == repeats ? 0 : (int)i);
  const int32_t status = run->noise(run->self, key, x, &fresh);
  if (status != KINORA_OK) return status;
  s->tensors->data(x, &at);
  s->tensors->data(fresh, &drawn);
  for (int64_t k = 0; k < numel; ++k) ((double*)at)[k] += up * ((double*)drawn)[k];
  s->tensors->release(fresh);
  return KINORA_OK;
}

/* One step of x, in place. */
static int32_t step(sampler* s, const kinora_denoiser* d, const kinora_run* run, kinora_tensor x,
                    kinora_tensor sigma, int64_t i, kinora_tensor* x0) {
  kinora_tensor_info info = {.struct_size = sizeof info};
  void *at = NULL, *clean = NULL, *now = NULL;
  s->tensors->info(x, &info);
  s->tensors->data(x, &at);
  s->tensors->data(sigma, &now);
  const double from = level(s, i), to = level(s, i + 1);
  const int draws = s->base.mode == ancestral || s->base.mode == repeats;
  const double up = draws ? root(to * to * (from * from - to * to) / (from * from)) : 0;
  const double down = root(to * to - up * up);
  for (int64_t b = 0; b < info.shape[0]; ++b) ((double*)now)[b] = from;
  const int32_t status = d->denoise(d->self, x, sigma, x0);
  if (status != KINORA_OK) return s->base.mode == deaf ? error(&s->base, KINORA_ERROR_FAILED, "no") : status;
  s->tensors->data(*x0, &clean);
  for (int64_t k = 0; k < info.numel; ++k) {
    const double slope = (((double*)at)[k] - ((double*)clean)[k]) / from;
    ((double*)at)[k] += (s->base.mode == half ? 0.5 : 1.0) * slope * (down - from);
  }
  return draws && to > 0 ? stir(s, run, x, info.numel, i, up) : KINORA_OK;
}

/* A copy of the noise at the first level; KINORA_ERROR_UNSUPPORTED for any other tensor than a row-major float64
   [B, ...]. */
static int32_t begin(sampler* s, kinora_tensor noise, int64_t* batch, kinora_tensor* x) {
  static int64_t calls = 0;
  kinora_tensor_info info = {.struct_size = sizeof info};
  void *from = NULL, *to = NULL;
  int32_t status = s->tensors->info(noise, &info);
  if (status != KINORA_OK) return status;
  if (info.ndim == 0 && s->base.mode == crash) abort();
  if (info.ndim == 0 || info.dtype != KINORA_DTYPE_FLOAT64 || !info.contiguous)
    return error(&s->base, KINORA_ERROR_UNSUPPORTED, "noise must be a row-major float64 [B, ...]");
  if ((status = s->tensors->empty(info.shape, info.ndim, info.dtype, NULL, x)) != KINORA_OK) return status;
  s->tensors->data(*x, &to);
  status = s->tensors->data(noise, &from);
  if (status != KINORA_OK && s->base.mode != values) return s->tensors->release(*x), *x = NULL, status;
  const double more = s->base.mode == memory ? 1e-9 * (double)calls++ : 0;
  for (int64_t k = 0; k < info.numel; ++k) ((double*)to)[k] = ((double*)from)[k] * level(s, 0) + more;
  *batch = info.shape[0];
  return KINORA_OK;
}

static int32_t sample(void* me, const kinora_denoiser* d, kinora_tensor noise, const kinora_run* run,
                      kinora_tensor* out) {
  sampler* s = me;
  kinora_tensor x = NULL, sigma = NULL;
  int64_t batch = 0;
  if ((d->needs || run->needs) && s->base.mode != careless)
    return error(&s->base, KINORA_ERROR_UNSUPPORTED, "needs of the denoiser, or of the run");
  int32_t status = begin(s, noise, &batch, &x);
  if (status == KINORA_OK) status = s->tensors->empty(&batch, 1, KINORA_DTYPE_FLOAT64, NULL, &sigma);
  for (int64_t i = 0; i < s->steps && status == KINORA_OK; ++i) {
    kinora_tensor x0 = NULL;
    status = step(s, d, run, x, sigma, i, &x0);
    if (status == KINORA_OK) status = run->progress(run->self, i + 1, s->steps, x0);
    if (s->base.mode != leak || i != 1) s->tensors->release(x0);
  }
  s->tensors->release(sigma);
  if (status == KINORA_OK)
    *out = x;
  else
    s->tensors->release(x);
  return status;
}

#define SAMPLER(MODE)                                                                \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given) { \
    return create(host, given, MODE);                                                \
  }                                                                                  \
  static const kinora_sampler table_##MODE = {.struct_size = sizeof(kinora_sampler), \
                                              .mix = KINORA_MIX_VARIANCE_EXPLODING,  \
                                              .create = create_##MODE,               \
                                              .destroy = destroy,                    \
                                              .levels = levels,                      \
                                              .sample = sample};
SAMPLER(none)
SAMPLER(rising)
SAMPLER(half)
SAMPLER(memory)
SAMPLER(deaf)
SAMPLER(leak)
SAMPLER(crash)
SAMPLER(values)
SAMPLER(ancestral)
SAMPLER(repeats)
SAMPLER(careless)
#define ONE(MODE) COMPONENT("sampler", KINORA_INTERFACE_SAMPLER, MODE, NULL)
BROKEN_PLUGIN("samplers", ONE(none), ONE(rising), ONE(half), ONE(memory), ONE(deaf), ONE(leak), ONE(crash),
              ONE(values), ONE(ancestral), ONE(repeats), ONE(careless))
