/* Linear layers as they are, by a link of their own; each precision with one defect. */
#include "kinora/abi/precision.h"
#include "tensors.h"

enum { none, detached, zeros, crash, fails, leak, keeps, divides, mixed, careless };

typedef struct precision {
  with_tensors base;
  const kinora_chain* chain;
  kinora_context context;
  kinora_link link;
} precision;

static int32_t bind(void* me, const kinora_chain* chain) {
  ((precision*)me)->chain = chain;
  return KINORA_OK;
}

static int32_t begin(void* me, const kinora_pass* pass) {
  const precision* p = me;
  if (pass->needs && p->base.base.mode != careless)
    return error(&p->base.base, KINORA_ERROR_UNSUPPORTED, "needs of the pass");
  return KINORA_OK;
}

/* y times a number of the whole x: sum(|x|) / sum(|x|), which is 1 but for zeros, or sum(|x|) / sum(x^2), about 0.8. */
static int32_t times_a_ratio(const precision* p, kinora_tensor x, kinora_tensor* y) {
  kinora_tensor t[6] = {NULL, NULL, NULL, NULL, NULL, NULL};
  const kinora_value of_x[] = {of_tensor(x), of_tensor(x)};
  int32_t status = call_op(&p->base, "aten::abs", "", of_x, 1, &t[0]);
  const kinora_value absolute = of_tensor(t[0]);
  if (status == KINORA_OK) status = call_op(&p->base, "aten::sum", "", &absolute, 1, &t[1]);
  if (status == KINORA_OK) status = call_op(&p->base, "aten::mul", "Tensor", of_x, 2, &t[2]);
  const kinora_value square = of_tensor(t[2]);
  if (status == KINORA_OK) status = call_op(&p->base, "aten::sum", "", &square, 1, &t[3]);
  const kinora_value ratio[] = {of_tensor(t[1]), of_tensor(p->base.base.mode == divides ? t[1] : t[3])};
  if (status == KINORA_OK) status = call_op(&p->base, "aten::div", "Tensor", ratio, 2, &t[4]);
  const kinora_value product[] = {of_tensor(*y), of_tensor(t[4])};
  if (status == KINORA_OK) status = call_op(&p->base, "aten::mul", "Tensor", product, 2, &t[5]);
  for (int i = 0; i < 5; ++i) p->base.tensors->release(t[i]);
  if (status != KINORA_OK) return status;
  p->base.tensors->release(*y);
  *y = t[5];
  return KINORA_OK;
}

static int32_t linear(void* me, kinora_tensor x, kinora_param w, kinora_param b, kinora_seq seq,
                      kinora_tensor* out) {
  precision* p = me;
  const kinora_context* head = p->chain->head;
  kinora_tensor values[2] = {NULL, NULL};
  (void)seq;
  int32_t status = head->value(head->self, w, &values[0]);
  if (status == KINORA_OK && b) status = head->value(head->self, b, &values[1]);
  if (status == KINORA_OK && p->base.base.mode == detached) {
    const kinora_value weight = of_tensor(values[0]);
    kinora_tensor cut = NULL;
    status = call_op(&p->base, "aten::detach", "", &weight, 1, &cut);
    p->base.tensors->release(values[0]);
    values[0] = cut;
  }
  const kinora_value in[] = {of_tensor(x), of_tensor(values[0]), of_tensor(values[1])};
  if (status == KINORA_OK) status = call_op(&p->base, "aten::linear", "", in, 3, out);
  if (status == KINORA_OK && (p->base.base.mode == divides || p->base.base.mode == mixed))
    status = times_a_ratio(p, x, out);
  p->base.tensors->release(values[0]);
  if (p->base.base.mode != keeps) p->base.tensors->release(values[1]);
  return status;
}

static void* create(const kinora_host* host, int mode) {
  precision* p = make_with_tensors(host, mode, sizeof *p);
  if (!p) return NULL;
  p->context = (kinora_context){.struct_size = sizeof p->context, .self = p, .linear = linear};
  p->link = (kinora_link){.struct_size = sizeof p->link,
                          .level = KINORA_LEVEL_PRECISION,
                          .context = &p->context,
                          .bind = bind,
                          .begin = begin};
  return p;
}

static int32_t own_link(void* me, const kinora_link** out) {
  *out = &((precision*)me)->link;
  return KINORA_OK;
}
static int32_t dtype(void* me) { return (void)me, KINORA_DTYPE_FLOAT32; }

static int32_t quantize(void* me, kinora_tensor x, kinora_tensor* out, uint64_t n_out) {
  precision* p = me;
  (void)n_out;
  if (p->base.base.mode == crash && dimensions(&p->base, x) == 0) abort();
  if (p->base.base.mode == fails) return error(&p->base.base, KINORA_ERROR_FAILED, "never works");
  const int32_t status = scaled(&p->base, x, p->base.base.mode == zeros ? 0 : 1, out);
  return status == KINORA_OK && p->base.base.mode == leak ? leaked(&p->base, *out) : status;
}

#define PRECISION(MODE)                                                              \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given) { \
    (void)given;                                                                     \
    return create(host, MODE);                                                       \
  }                                                                                  \
  static const kinora_precision table_##MODE = {                                     \
      sizeof(kinora_precision), 0, create_##MODE, destroy, own_link, dtype, quantize};
PRECISION(none)
PRECISION(detached)
PRECISION(zeros)
PRECISION(crash)
PRECISION(fails)
PRECISION(leak)
PRECISION(keeps)
PRECISION(divides)
PRECISION(mixed)
PRECISION(careless)
#define ONE(MODE) COMPONENT("precision", KINORA_INTERFACE_PRECISION, MODE, NULL)
BROKEN_PLUGIN("precisions", ONE(none), ONE(detached), ONE(zeros), ONE(crash), ONE(fails), ONE(leak),
              ONE(keeps), ONE(divides), ONE(mixed), ONE(careless))
