/* Tensors in the broken plugins. */
#ifndef KINORA_TESTS_TENSORS_H
#define KINORA_TESTS_TENSORS_H
#include "broken.h"
#include "kinora/abi/tensor.h"

typedef struct with_tensors {
  instance base;
  const kinora_tensors_api* tensors;
} with_tensors;

/* An instance of `size` bytes, which begins with a with_tensors; null if the host has no tensors. */
static inline void* make_with_tensors(const kinora_host* host, int mode, size_t size) {
  const kinora_tensors_api* tensors = host->get_interface(host, KINORA_INTERFACE_TENSORS, 0);
  if (!tensors) return NULL;
  with_tensors* self = calloc(1, size);
  if (!self) return host->set_error(host, KINORA_ERROR_NO_MEMORY, "no memory"), NULL;
  self->base.host = host;
  self->base.mode = mode;
  self->tensors = tensors;
  return self;
}

static inline kinora_value of_tensor(kinora_tensor t) {
  const kinora_value v = {.kind = t ? KINORA_VALUE_TENSOR : KINORA_VALUE_NONE, .t = t};
  return v;
}
static inline kinora_value of_int(int64_t i) {
  const kinora_value v = {.kind = KINORA_VALUE_INT, .i = i};
  return v;
}
static inline kinora_value of_double(double d) {
  const kinora_value v = {.kind = KINORA_VALUE_DOUBLE, .d = d};
  return v;
}

/* An operator of n arguments; *out stays as it was on an error. */
static inline int32_t call_op(const with_tensors* self, const char* name, const char* overload,
                              const kinora_value* in, uint64_t n, kinora_tensor* out) {
  kinora_value made = {0};
  const int32_t status = self->tensors->call_op(name, overload, in, n, &made, 1);
  if (status == KINORA_OK) *out = made.t;
  return status;
}

/* x times factor */
static inline int32_t scaled(const with_tensors* self, kinora_tensor x, double factor, kinora_tensor* out) {
  const kinora_value in[] = {of_tensor(x), of_double(factor)};
  return call_op(self, "aten::mul", "Scalar", in, 2, out);
}

/* Takes a handle that is never released. */
static inline int32_t leaked(const with_tensors* self, kinora_tensor x) {
  kinora_tensor more = NULL;
  return self->tensors->retain(x, &more);
}

static inline int64_t dimensions(const with_tensors* self, kinora_tensor x) {
  kinora_tensor_info info = {.struct_size = sizeof info};
  return self->tensors->info(x, &info) == KINORA_OK ? info.ndim : -1;
}
#endif
