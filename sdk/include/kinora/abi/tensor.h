/* kinora.tensors/1: libtorch tensors without libtorch's headers.                              since ABI 1.0
 *
 * A kinora_tensor is libtorch's AtenTensorHandle: an owning pointer to one reference of an at::Tensor,
 * autograd graph included, so gradients flow through plugins. A plugin of the `stable` tier uses tensors only
 * through this table and works with every libtorch in which the operators that it names have the same schema; a
 * plugin of the `pinned` tier casts the handle (kinora/aten.hpp). */
#ifndef KINORA_ABI_TENSOR_H
#define KINORA_ABI_TENSOR_H
#include "kinora/abi/dlpack.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_TENSORS "kinora.tensors/1"

typedef struct AtenTensorOpaque* kinora_tensor;

/* A tensor with the name of the interface's argument. */
typedef struct kinora_named {
  const char* name;
  kinora_tensor tensor; /* null: absent */
} kinora_named;

/* dtypes, numbered as libtorch's c10::ScalarType (torch/headeronly/core/ScalarType.h, fixed since 1.0), whose other
 * numbers info() may return as well (float8_e4m3fn is 24) */
#define KINORA_DTYPE_UINT8 0
#define KINORA_DTYPE_INT8 1
#define KINORA_DTYPE_INT16 2
#define KINORA_DTYPE_INT32 3
#define KINORA_DTYPE_INT64 4
#define KINORA_DTYPE_FLOAT16 5
#define KINORA_DTYPE_FLOAT32 6
#define KINORA_DTYPE_FLOAT64 7
#define KINORA_DTYPE_BOOL 11
#define KINORA_DTYPE_BFLOAT16 15

#define KINORA_NO_STORAGE (-1)

/* Kinds of a kinora_value, and which member holds it. */
#define KINORA_VALUE_NONE 0u /* an optional argument that is absent */
#define KINORA_VALUE_INT \
  1u /* i; also dtypes and layouts. A device argument is -1 for the CPU, else the index of the CUDA device \
      */
#define KINORA_VALUE_DOUBLE 2u  /* d */
#define KINORA_VALUE_BOOL 3u    /* i: 0 or 1 */
#define KINORA_VALUE_TENSOR 4u  /* t */
#define KINORA_VALUE_INTS 5u    /* list: const int64_t[n] */
#define KINORA_VALUE_TENSORS 6u /* list: const kinora_tensor[n] */
#define KINORA_VALUE_STRING 7u  /* list: const char[n] */
#define KINORA_VALUE_DOUBLES 8u /* list: const double[n] */

typedef struct kinora_value {
  uint32_t kind; /* KINORA_VALUE_NONE ...; members that the kind does not use are 0 */
  uint32_t reserved;
  int64_t i;
  double d;
  kinora_tensor t;  /* borrowed in an argument, owned in a result */
  const void* list; /* the same, including its items */
  uint64_t n;       /* number of items in the list */
} kinora_value;

typedef struct kinora_tensor_info {
  uint32_t struct_size;
  int32_t dtype;       /* KINORA_DTYPE_FLOAT32 ... */
  int32_t device_type; /* DLPack's: KINORA_DL_CPU, KINORA_DL_CUDA; KINORA_NO_STORAGE for a tensor of the meta
                          device, which has a shape and no values */
  int32_t device_id;   /* from 0; 0 for the CPU */
  int64_t ndim;
  const int64_t* shape;   /* shape and strides live as long as the tensor's handle */
  const int64_t* strides; /* in elements */
  int64_t numel;
  int32_t requires_grad;
  int32_t contiguous;
} kinora_tensor_info;

/* One node of the autograd graph, with the plugin's own forward and backward. */
typedef struct kinora_function {
  uint32_t struct_size;
  uint32_t n_in;
  uint32_t n_out;
  uint32_t reserved;
  void* state;
  /* [owner-thread] Runs once, without gradient. in: borrowed; out: n_out new tensors. */
  int32_t (*forward)(void* state, const kinora_tensor* in, kinora_tensor* out);
  /* [autograd-thread] grad_out: n_out gradients, zeros where undefined; grad_in: n_in new tensors or null.
   * Gradient mode is off; a backward that runs a forward again turns it on with set_grad_mode. */
  int32_t (*backward)(void* state, const kinora_tensor* grad_out, kinora_tensor* grad_in);
  /* [any-thread] Called once, when the graph is destroyed, or right after forward if no graph was kept. */
  void (*drop)(void* state);
} kinora_function;

typedef struct kinora_tensors_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] Releases one reference; null is allowed. */
  void (*release)(kinora_tensor);
  /* [any-thread] A second handle to the same tensor. */
  int32_t (*retain)(kinora_tensor, kinora_tensor* out);
  /* [any-thread] Fills *out in (KINORA_FILL): shape, dtype and device; its pointers live as long as a handle
   * to the tensor. */
  int32_t (*info)(kinora_tensor, kinora_tensor_info* out);
  /* [any-thread] First element, on the tensor's device; lives as long as a handle to the tensor. For strides
   * see info. KINORA_ERROR_UNSUPPORTED for a tensor on the meta device, which has a shape and no values. */
  int32_t (*data)(kinora_tensor, void** out);
  /* [any-thread] A new tensor: uninitialised, row-major, without gradient, on the device of `like` (null: the
   * CPU). */
  int32_t (*empty)(const int64_t* shape, int64_t ndim, int32_t dtype, kinora_tensor like, kinora_tensor* out);
  /* [any-thread] Takes ownership of the DLPack tensor without a copy; it is released with the last user. */
  int32_t (*from_dlpack)(kinora_dl_managed*, kinora_tensor* out);
  /* [any-thread] A view without gradient; the caller calls its deleter. */
  int32_t (*to_dlpack)(kinora_tensor, kinora_dl_managed** out);
  /* [any-thread] Runs operator `name` ("aten::add") with `overload` ("Tensor") through the dispatcher: any
   * operator, with autograd, on any device. args: all of the schema's arguments, or fewer when the rest have
   * defaults. out: the first n_out results, owned. A list result has kind KINORA_VALUE_TENSORS and is
   * released by release_value. Errors keep libtorch's text. */
  int32_t (*call_op)(const char* name, const char* overload, const kinora_value* args, uint64_t n_args,
                     kinora_value* out, uint64_t n_out);
  /* [any-thread] Releases tensors and lists in a value that call_op returned. */
  void (*release_value)(kinora_value*);
  /* [owner-thread, autograd-thread] Runs forward and adds the node to the graph. out: its n_out results. The
   * function is copied; `state` lives until drop. On an error drop has been called. */
  int32_t (*autograd_apply)(const kinora_function*, const kinora_tensor* in, kinora_tensor* out);
  /* [owner-thread, autograd-thread] Gradients of `outputs`, weighted by grad_outputs, with respect to
   * `inputs`; null for an input that the outputs do not depend on. Nothing is accumulated in .grad. Frees the
   * graph, and makes none of its own: no second gradient. */
  int32_t (*grad)(const kinora_tensor* outputs, const kinora_tensor* grad_outputs, uint64_t n_outputs,
                  const kinora_tensor* inputs, uint64_t n_inputs, kinora_tensor* out);
  /* [any-thread] Sets the gradient mode of the calling thread; returns the previous mode. */
  int32_t (*set_grad_mode)(int32_t on);
  /* [any-thread] For a leaf of a floating dtype; else an error. */
  int32_t (*set_requires_grad)(kinora_tensor, int32_t on);
  /* [owner-thread] Runs the backward of `outputs`, weighted by grad_outputs (null: ones, for a single
   * number); gradients are added to .grad of the leaves. Frees the graph. For pipelines, where the last local
   * block receives its gradient from another rank. */
  int32_t (*backward)(const kinora_tensor* outputs, const kinora_tensor* grad_outputs, uint64_t n_outputs);
} kinora_tensors_api;

KINORA_SLOT(kinora_named, name, 0);
KINORA_SLOT(kinora_named, tensor, 8);
KINORA_SIZE(kinora_named, 16);
KINORA_SLOT(kinora_value, kind, 0);
KINORA_SLOT(kinora_value, reserved, 4);
KINORA_SLOT(kinora_value, i, 8);
KINORA_SLOT(kinora_value, d, 16);
KINORA_SLOT(kinora_value, t, 24);
KINORA_SLOT(kinora_value, list, 32);
KINORA_SLOT(kinora_value, n, 40);
KINORA_SIZE(kinora_value, 48);
KINORA_SLOT(kinora_tensor_info, struct_size, 0);
KINORA_SLOT(kinora_tensor_info, dtype, 4);
KINORA_SLOT(kinora_tensor_info, device_type, 8);
KINORA_SLOT(kinora_tensor_info, device_id, 12);
KINORA_SLOT(kinora_tensor_info, ndim, 16);
KINORA_SLOT(kinora_tensor_info, shape, 24);
KINORA_SLOT(kinora_tensor_info, strides, 32);
KINORA_SLOT(kinora_tensor_info, numel, 40);
KINORA_SLOT(kinora_tensor_info, requires_grad, 48);
KINORA_SLOT(kinora_tensor_info, contiguous, 52);
KINORA_SIZE(kinora_tensor_info, 56);
KINORA_SLOT(kinora_function, struct_size, 0);
KINORA_SLOT(kinora_function, n_in, 4);
KINORA_SLOT(kinora_function, n_out, 8);
KINORA_SLOT(kinora_function, reserved, 12);
KINORA_SLOT(kinora_function, state, 16);
KINORA_SLOT(kinora_function, forward, 24);
KINORA_SLOT(kinora_function, backward, 32);
KINORA_SLOT(kinora_function, drop, 40);
KINORA_SIZE(kinora_function, 48);
KINORA_SLOT(kinora_tensors_api, struct_size, 0);
KINORA_SLOT(kinora_tensors_api, reserved, 4);
KINORA_SLOT(kinora_tensors_api, release, 8);
KINORA_SLOT(kinora_tensors_api, retain, 16);
KINORA_SLOT(kinora_tensors_api, info, 24);
KINORA_SLOT(kinora_tensors_api, data, 32);
KINORA_SLOT(kinora_tensors_api, empty, 40);
KINORA_SLOT(kinora_tensors_api, from_dlpack, 48);
KINORA_SLOT(kinora_tensors_api, to_dlpack, 56);
KINORA_SLOT(kinora_tensors_api, call_op, 64);
KINORA_SLOT(kinora_tensors_api, release_value, 72);
KINORA_SLOT(kinora_tensors_api, autograd_apply, 80);
KINORA_SLOT(kinora_tensors_api, grad, 88);
KINORA_SLOT(kinora_tensors_api, set_grad_mode, 96);
KINORA_SLOT(kinora_tensors_api, set_requires_grad, 104);
KINORA_SLOT(kinora_tensors_api, backward, 112);
KINORA_SIZE(kinora_tensors_api, 120);
KINORA_EXTERN_C_END
#endif
