/* The mean of float64 numbers [B, D], each score with one defect. */
#include "kinora/abi/score.h"
#include "tensors.h"

enum { none, uncounted, final, half, crash, fails, leak, dies, batch, careless };

typedef struct score {
  with_tensors base;
  double sum, count;
  int computed;
} score;

static int32_t update(void* me, const kinora_run* run, const kinora_named* in, uint64_t n_in) {
  score* s = me;
  kinora_tensor_info info = {.struct_size = sizeof info};
  void* data = NULL;
  if (run->needs && s->base.base.mode != careless)
    return error(&s->base.base, KINORA_ERROR_UNSUPPORTED, "needs of the run");
  if (s->computed && s->base.base.mode == final) return KINORA_OK;
  if (s->base.base.mode == fails) return error(&s->base.base, KINORA_ERROR_FAILED, "never works");
  if (n_in != 1) return error(&s->base.base, KINORA_ERROR_INVALID, "x is required");
  if (s->base.tensors->info(in[0].tensor, &info) != KINORA_OK) return KINORA_ERROR_INVALID;
  if (info.ndim == 0 && s->base.base.mode == crash) abort();
  if (s->base.base.mode == half) s->count += (double)info.numel;
  if (info.dtype != KINORA_DTYPE_FLOAT64 || !info.contiguous)
    return error(&s->base.base, KINORA_ERROR_INVALID, "x must be float64 and row-major");
  const int32_t status = s->base.tensors->data(in[0].tensor, &data);
  if (status != KINORA_OK) return status;
  for (int64_t i = 0; i < info.numel; ++i) s->sum += ((double*)data)[i];
  if (s->base.base.mode != half) s->count += (double)info.numel;
  return KINORA_OK;
}

static int32_t state(void* me, kinora_tensor* out) {
  const score* s = me;
  static const int64_t two = 2;
  void* data = NULL;
  int32_t status = s->base.tensors->empty(&two, 1, KINORA_DTYPE_FLOAT64, NULL, out);
  if (status != KINORA_OK || (status = s->base.tensors->data(*out, &data)) != KINORA_OK) return status;
  ((double*)data)[0] = s->sum;
  ((double*)data)[1] = s->count;
  return s->base.base.mode == leak ? leaked(&s->base, *out) : KINORA_OK;
}

static int32_t merge(void* me, kinora_tensor state) {
  score* s = me;
  kinora_tensor_info info = {.struct_size = sizeof info};
  void* data = NULL;
  if (s->base.tensors->info(state, &info) != KINORA_OK || info.dtype != KINORA_DTYPE_FLOAT64 ||
      info.ndim != 1 || info.numel != 2 || !info.contiguous ||
      s->base.tensors->data(state, &data) != KINORA_OK)
    return error(&s->base.base, KINORA_ERROR_INVALID, "the state of this score is float64 [2]");
  s->sum += ((double*)data)[0];
  if (s->base.base.mode != uncounted || s->count == 0) s->count += ((double*)data)[1];
  return KINORA_OK;
}

static int32_t compute(void* me, double* out, uint64_t n_out) {
  score* s = me;
  (void)n_out;
  if (s->base.base.mode == dies) abort();
  s->computed = 1;
  if (s->count == 0) return error(&s->base.base, KINORA_ERROR_UNSUPPORTED, "there is no sample");
  out[0] = s->sum / s->count;
  return KINORA_OK;
}

/* A score of one sample is an instance that has seen no other. */
static int32_t each(void* me, const kinora_run* run, const kinora_named* in, uint64_t n_in, double* out,
                    uint64_t n_samples) {
  const score* s = me;
  score whole = {.base = s->base};
  kinora_tensor_info info = {.struct_size = sizeof info};
  void* data = NULL;
  int32_t status = update(&whole, run, in, n_in);
  if (status != KINORA_OK || (status = s->base.tensors->info(in[0].tensor, &info)) != KINORA_OK ||
      (status = s->base.tensors->data(in[0].tensor, &data)) != KINORA_OK)
    return status;
  const uint64_t size = (uint64_t)info.numel / n_samples;
  for (uint64_t i = 0; i < n_samples; ++i) {
    double sum = 0;
    for (uint64_t k = 0; k < size; ++k) sum += ((double*)data)[i * size + k];
    out[i] = s->base.base.mode == batch ? whole.sum / whole.count : sum / (double)size;
  }
  return KINORA_OK;
}

#define SCORE(MODE)                                                                  \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given) { \
    (void)given;                                                                     \
    return make_with_tensors(host, MODE, sizeof(score));                             \
  }                                                                                  \
  static const kinora_score table_##MODE = {                                         \
      sizeof(kinora_score), 0, create_##MODE, destroy, update, state, merge, compute, each};
SCORE(none)
SCORE(uncounted)
SCORE(final)
SCORE(half)
SCORE(crash)
SCORE(fails)
SCORE(leak)
SCORE(dies)
SCORE(batch)
SCORE(careless)
#define ONE(MODE) COMPONENT("score", KINORA_INTERFACE_SCORE, MODE, NULL)
BROKEN_PLUGIN("scores", ONE(none), ONE(uncounted), ONE(final), ONE(half), ONE(crash), ONE(fails), ONE(leak),
              ONE(dies), ONE(batch), ONE(careless))
