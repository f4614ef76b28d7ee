/* The mean squared error of a prediction [B, N] and a target, each loss with one defect. */
#include "kinora/abi/loss.h"
#include "tensors.h"

enum { none, detached, deaf, mixed, memory, leak, crash, values, lies };

typedef with_tensors loss;

/* name(a) or name(a, b); takes over a where `takes` is not 0. */
static int32_t op(const loss* l, const char* name, const char* overload, kinora_tensor a, int takes,
                  const kinora_value* b, kinora_tensor* out) {
  const kinora_value given[2] = {of_tensor(a), b ? *b : (kinora_value){0}};
  kinora_value made = {0};
  const int32_t status = l->tensors->call_op(name, overload, given, b ? 2 : 1, &made, 1);
  if (takes) l->tensors->release(a);
  *out = status == KINORA_OK ? made.t : NULL;
  return status;
}

/* (prediction - target)^2 */
static int32_t square(const loss* l, kinora_tensor prediction, kinora_tensor target, kinora_tensor* out) {
  kinora_tensor difference = NULL, other = NULL;
  kinora_value v = of_tensor(target);
  int32_t status = op(l, "aten::sub", "Tensor", prediction, 0, &v, &difference);
  if (status == KINORA_OK && l->base.mode == deaf)
    status = op(l, "aten::nan_to_num", "", difference, 1, NULL, &difference);
  if (status != KINORA_OK) return status;
  if (l->base.mode == detached)
    status = op(l, "aten::detach", "", difference, 0, NULL, &other);
  else
    status = l->tensors->retain(difference, &other);
  v = of_tensor(other);
  if (status == KINORA_OK) status = op(l, "aten::mul", "Tensor", difference, 0, &v, out);
  l->tensors->release(difference);
  l->tensors->release(other);
  return status;
}

static int32_t evaluate(void* me, const kinora_named* in, uint64_t n_in, kinora_tensor* out, uint64_t n_out) {
  static int64_t calls = 0;
  static const int64_t last = 1, both[] = {0, 1};
  loss* l = me;
  kinora_tensor prediction = NULL, target = NULL, made = NULL, ones = NULL;
  kinora_tensor_info info = {.struct_size = sizeof info};
  (void)n_out;
  for (uint64_t i = 0; i < n_in; ++i) {
    if (!strcmp(in[i].name, "prediction")) prediction = in[i].tensor;
    if (!strcmp(in[i].name, "target")) target = in[i].tensor;
  }
  if (!prediction || !target)
    return error(&l->base, KINORA_ERROR_INVALID, "prediction and target are required");
  l->tensors->info(prediction, &info);
  if (info.ndim == 0 && l->base.mode == crash) abort();
  if (l->base.mode == values && info.numel > 0) { /* looks at a number without asking whether there is one */
    void* data = NULL;
    l->tensors->data(prediction, &data);
    *(volatile char*)data;
  }
  int32_t status = square(l, prediction, target, &made);
  const kinora_value dims = {.kind = KINORA_VALUE_INTS,
                             .list = l->base.mode == mixed ? both : &last,
                             .n = l->base.mode == mixed ? 2 : 1};
  const kinora_value more = {.kind = KINORA_VALUE_DOUBLE,
                             .d = l->base.mode == memory ? 1e-14 * (double)calls++ : 0};
  if (status == KINORA_OK) status = op(l, "aten::mean", "dim", made, 1, &dims, &made);
  if (status == KINORA_OK && l->base.mode == mixed) { /* the same number for both samples */
    const int64_t two = 2;
    const kinora_value shape = {.kind = KINORA_VALUE_INTS, .list = &two, .n = 1};
    status = op(l, "aten::expand", "", made, 1, &shape, &made);
  }
  if (status == KINORA_OK) status = op(l, "aten::add", "Scalar", made, 1, &more, &made);
  if (status == KINORA_OK && l->base.mode == leak) status = l->tensors->retain(made, &ones);
  const kinora_value of_target = of_tensor(target);
  if (status == KINORA_OK && l->base.mode == lies) /* half its derivative times the sample's elements */
    status = op(l, "aten::sub", "Tensor", prediction, 0, &of_target, &out[1]);
  if (status == KINORA_OK) out[0] = made;
  return status;
}

static int32_t no_noise(void* me) { return error(me, KINORA_ERROR_UNSUPPORTED, "it has no noise"); }
static int32_t noisy(void* me, kinora_tensor a, kinora_tensor b, kinora_tensor c, kinora_tensor* out) {
  (void)a, (void)b, (void)c, (void)out;
  return no_noise(me);
}
static int32_t input(void* me, kinora_tensor a, kinora_tensor b, kinora_tensor* c, kinora_tensor* d) {
  (void)a, (void)b, (void)c, (void)d;
  return no_noise(me);
}

#define LOSS(MODE)                                                                   \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given) { \
    (void)given;                                                                     \
    return make_with_tensors(host, MODE, sizeof(loss));                              \
  }                                                                                  \
  static const kinora_loss table_##MODE = {.struct_size = sizeof(kinora_loss),       \
                                           .create = create_##MODE,                  \
                                           .destroy = destroy,                       \
                                           .noisy = noisy,                           \
                                           .input = input,                           \
                                           .estimate = noisy,                        \
                                           .evaluate = evaluate};
LOSS(none)
LOSS(detached)
LOSS(deaf)
LOSS(mixed)
LOSS(memory)
LOSS(leak)
LOSS(crash)
LOSS(values)
LOSS(lies)
#define ONE(MODE) COMPONENT("loss", KINORA_INTERFACE_LOSS, MODE, NULL)
BROKEN_PLUGIN("losses", ONE(none), ONE(detached), ONE(deaf), ONE(mixed), ONE(memory), ONE(leak), ONE(crash),
              ONE(values), ONE(lies))
