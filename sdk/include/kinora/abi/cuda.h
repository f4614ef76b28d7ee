/* kinora.cuda/1-draft.4: functions that need libtorch's CUDA library or nvcc.                 draft
 *
 * Available only where libkinora_cuda is installed and a job chose a CUDA device; everything works without
 * it, but slower. It is a table of the process, not a component, since a run file neither chooses nor
 * configures it. Tensors are libtorch's. Work is enqueued on the device's current stream; nothing waits for
 * the device.
 *
 * Draft: it becomes 1.0 when training on GPUs has been measured with it. */
#ifndef KINORA_ABI_CUDA_H
#define KINORA_ABI_CUDA_H
#include "kinora/abi/tensor.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_CUDA "kinora.cuda/1-draft.4"

typedef struct kinora_cuda_graphs kinora_cuda_graphs; /* opaque: CUDA graphs that share one pool of memory */
typedef struct kinora_cuda_copier kinora_cuda_copier; /* opaque: a stream for copies from the CPU */
typedef struct kinora_cuda_attention kinora_cuda_attention; /* opaque: cuDNN's plans for attention in FP8 */

/* Memory of libtorch's allocator, in bytes, since the process began. */
typedef struct kinora_cuda_memory {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t allocated;      /* by tensors, now */
  uint64_t allocated_peak; /* by tensors, at most */
  uint64_t reserved_peak;  /* taken from the device at most, including what is cached for later */
} kinora_cuda_memory;

#define KINORA_ROPE_HALVES 0u /* rotary pairs: channels (i, i + d / 2) */
#define KINORA_ROPE_PAIRS 1u  /* ... or (2 i, 2 i + 1) */

#define KINORA_GELU_EXACT 0u
#define KINORA_GELU_TANH 1u

/* Numbers of one step of AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2), and the averages
 * of the weights that move with it. */
typedef struct kinora_cuda_adamw {
  uint32_t struct_size;
  uint32_t n_averages; /* at most KINORA_CUDA_AVERAGES */
  double gradient_factor;
  double keep; /* 1 - rate * weight decay */
  double beta1;
  double beta2;
  double root2; /* 1 / sqrt(1 - beta2^step) */
  double eps;
  double step; /* rate / (1 - beta1^step) */
  const kinora_tensor* averages;
  const double* shares; /* of the new weights in each average */
} kinora_cuda_adamw;
#define KINORA_CUDA_AVERAGES 4u

/* A matrix [rows, cols] in few bits; kernels/fp4/quantize.hpp (NVFP4) and kernels/fp8/quantize.hpp (E4M3,
 * E5M2) define codes and scales. */
#define KINORA_LOW_NVFP4 0u
#define KINORA_LOW_E4M3 1u
#define KINORA_LOW_E5M2 2u
#define KINORA_LOW_SQUARE 1u        /* flags: NVFP4: blocks of 16x16 values */
#define KINORA_LOW_HADAMARD 2u      /* NVFP4: rows are transformed first */
#define KINORA_LOW_STOCHASTIC 4u    /* NVFP4: rounding; else to nearest */
#define KINORA_LOW_SWIZZLED 8u      /* NVFP4, MXFP8: order of the scales */
#define KINORA_LOW_COLUMN_MAJOR 16u /* x is stored as [cols, rows]; codes and scales are not */
typedef struct kinora_cuda_low {
  uint32_t struct_size;
  uint32_t format;  /* KINORA_LOW_NVFP4 ... */
  uint32_t scaling; /* FP8: 0 the matrix, 1 1x128, 2 128x128, 3 1x32 in powers of two (MXFP8) */
  /* NVFP4: 0 none, 1 mse, 2 mae, 3 abs_max, 4 static_6, 5 static_4; FP8: 0 exact, 1 up, 2 floor */
  uint32_t rule;
  uint32_t flags;
  uint32_t noise_stream; /* of stochastic rounding, with: */
  uint64_t noise_seed;
  int64_t noise_row; /* place of the matrix in a larger one */
  int64_t noise_col; /* a multiple of 16 */
} kinora_cuda_low;

/* Attention softmax(scale q k^T) v whose samples are `groups` rows of a batch each, which share the scales of a
 * head: q [B G, S, H, d], k, v [B G, L, H, d], contiguous. */
typedef struct kinora_cuda_heads {
  uint32_t struct_size;
  uint32_t gradient; /* forward: 1: refuse what the backward cannot do */
  int64_t groups;    /* G */
  double scale;
  kinora_tensor q; /* float8_e4m3fn; bfloat16 for a backward in bfloat16 */
  kinora_tensor k;
  kinora_tensor v;
  /* float32 [B H, KINORA_FP8_NUMBERS, 4]: cuDNN's scales of each head, each the first of 4 floats (it wants 16
   * bytes between tensors). Null for a backward in bfloat16. */
  kinora_tensor numbers;
} kinora_cuda_heads;
#define KINORA_FP8_Q 0u      /* what a code of q stands for: "descale" */
#define KINORA_FP8_K 1u      /* of k */
#define KINORA_FP8_V 2u      /* of v */
#define KINORA_FP8_P 3u      /* of the softmax */
#define KINORA_FP8_TO_P 4u   /* factor before the softmax is rounded to E4M3: "scale" */
#define KINORA_FP8_TO_OUT 5u /* ... the result */
#define KINORA_FP8_GRAD 6u   /* what a code of the result's gradient stands for */
#define KINORA_FP8_S 7u      /* of the scores' gradient */
#define KINORA_FP8_TO_S 8u   /* factor before the scores' gradient is rounded to E5M2 */
#define KINORA_FP8_ONE 9u    /* 1: scale of what is not rounded to FP8 */
#define KINORA_FP8_AMAX 10u  /* 4 that are written: largest magnitudes, which nobody reads */
#define KINORA_FP8_NUMBERS 14u

typedef struct kinora_cuda_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] The calling thread's current stream of the device, a cudaStream_t. No function records a tensor on a
   * second stream: copier_wait() does that for its copies, and every other tensor stays on the current stream. */
  int32_t (*stream)(int32_t device, void** out);
  /* [any-thread] Fills *out in (KINORA_FILL). */
  int32_t (*memory)(int32_t device, kinora_cuda_memory* out);

  /* [owner-thread] */
  int32_t (*graphs_open)(int32_t device, kinora_cuda_graphs** out);
  /* [owner-thread] Runs evaluate() twice on a side stream, which does all one-time initialisation, and
   * records a third run. evaluate() must read tensors at fixed addresses and never wait for the device.
   * *graph: its number; *out: the result of every replay, always the same memory, undefined before the first.
   * An error leaves the device as it was, and evaluate() can then be called without a graph. */
  int32_t (*graphs_record)(kinora_cuda_graphs*, int32_t (*evaluate)(void* user, kinora_tensor* out),
                           void* user, int64_t* graph, kinora_tensor* out);
  /* [owner-thread] */
  int32_t (*graphs_replay)(kinora_cuda_graphs*, int64_t graph);
  void (*graphs_forget)(kinora_cuda_graphs*, int64_t graph);
  void (*graphs_close)(kinora_cuda_graphs*);

  /* [owner-thread] */
  int32_t (*copier_open)(int32_t device, kinora_cuda_copier** out);
  /* [owner-thread] Starts copies of CPU tensors through pinned memory; out[i]: the copy of in[i], which may
   * be changed at once. */
  int32_t (*copier_send)(kinora_cuda_copier*, const kinora_tensor* in, uint64_t n, kinora_tensor* out);
  /* [owner-thread] Work that is enqueued from now on runs after the copies; sent: the output of the last
   * send(). */
  int32_t (*copier_wait)(kinora_cuda_copier*, const kinora_tensor* sent, uint64_t n);
  void (*copier_close)(kinora_cuda_copier*);

  /* Kernels: float32 or bfloat16, statistics in float32. Other dtypes: KINORA_ERROR_UNSUPPORTED. They record
   * no autograd graph; autograd nodes call them.
   *
   * [any-thread] LayerNorm(x) * (1 + scale) + shift; x [B, S, D], scale and shift [1 or B, 1 or S, D], all of
   * x's dtype
   * -> out[0] [B, S, D], and for the backward out[1] the mean and out[2] 1 / deviation, float32 [B, S]. */
  int32_t (*modulate)(kinora_tensor x, kinora_tensor scale, kinora_tensor shift, double eps,
                      kinora_tensor* out);
  /* [autograd-thread] -> gradients: out[0] of x, out[1] of scale and out[2] of shift in their shapes; always
   * the same bits. */
  int32_t (*modulate_backward)(kinora_tensor grad, kinora_tensor x, kinora_tensor scale, kinora_tensor shift,
                               kinora_tensor mean, kinora_tensor rstd, kinora_tensor* out);
  /* [any-thread] x / rms(x) * weight, rotated: x [B, S, H, d] or [B, S, G, n, d], any strides, d even, at
   * most 512; weight [d] of x's dtype, null: no norm; cos and sin float32 [1 or B, S, d / 2], both or neither
   * -> out[0] of x's shape, out[1] 1 / rms, float32, of x's shape without d; null without a weight. */
  int32_t (*norm_rope)(kinora_tensor x, kinora_tensor weight, kinora_tensor cos, kinora_tensor sin,
                       uint32_t turn, uint32_t reserved, double eps, kinora_tensor* out);
  /* [autograd-thread] Writes the gradient of x to grad_x, a tensor of x's shape and dtype with d contiguous:
   * a part of the gradient of a fused projection. out[0]: gradient of weight; always the same bits. Without a
   * weight x and rstd may be null, and out[0] is. */
  int32_t (*norm_rope_backward)(kinora_tensor grad, kinora_tensor x, kinora_tensor weight, kinora_tensor cos,
                                kinora_tensor sin, kinora_tensor rstd, uint32_t turn, uint32_t reserved,
                                kinora_tensor grad_x, kinora_tensor* out);
  /* [any-thread] x + gate * y: x and y [B, S, D], gate [1 or B, 1 or S, D], all of x's dtype -> out[0]. */
  int32_t (*gated)(kinora_tensor x, kinora_tensor y, kinora_tensor gate, kinora_tensor* out);
  /* [autograd-thread] -> gradients: out[0] of y and out[1] of gate, in their shapes; that of x is grad.
   * Always the same bits. */
  int32_t (*gated_backward)(kinora_tensor grad, kinora_tensor y, kinora_tensor gate, kinora_tensor* out);
  /* [any-thread] GELU of x + bias: x [..., D], bias [D] of x's dtype; form: KINORA_GELU_* -> out[0]. */
  int32_t (*gelu)(kinora_tensor x, kinora_tensor bias, uint32_t form, uint32_t reserved, kinora_tensor* out);
  /* [autograd-thread] -> gradients: out[0] of x, out[1] of bias; always the same bits. */
  int32_t (*gelu_backward)(kinora_tensor grad, kinora_tensor x, kinora_tensor bias, uint32_t form,
                           uint32_t reserved, kinora_tensor* out);

  /* [any-thread] *out: 10 * major + minor of the device's compute capability, such as 90. */
  int32_t (*capability)(int32_t device, int32_t* out);
  /* [any-thread] Merges into (out, log_sum) the result (more, more_log_sum) of the same queries for other
   * keys: out and more float32 [B, S, H, d], log_sum and more_log_sum float32 [B, S, H], logarithms of sums
   * of exponentials; any strides, but d is contiguous in out. */
  int32_t (*merge_attention)(kinora_tensor out, kinora_tensor log_sum, kinora_tensor more,
                             kinora_tensor more_log_sum);
  /* [any-thread] Changes the weight, both moments and the averages in place, in one pass over memory; all
   * float32, contiguous, of one size. The bits of optimizer/adamw on a processor. */
  int32_t (*adamw)(kinora_tensor weight, kinora_tensor gradient, kinora_tensor first, kinora_tensor second,
                   const kinora_cuda_adamw* numbers);
  /* [any-thread] Matrices in few bits: contiguous tensors, x float32 or bfloat16; all bits are those of the
   * processor's kernels. rows and cols are x's, exchanged with COLUMN_MAJOR.
   * amax: 16 bytes as float32 [4]: the largest finite magnitude, after a transform; 0; and, as an uint64, the
   * count of values that are not finite. */
  int32_t (*low_amax)(const kinora_cuda_low*, kinora_tensor x, kinora_tensor amax);
  /* amax: its first number is read, by NVFP4 and by a scale of the whole matrix; must be finite, else codes
   * and scales are undefined. codes and scales uint8, of the bytes that the format has. global float32 [1]:
   * NVFP4's global scale, FP8's scale of the whole matrix; other scalings do not use it. */
  int32_t (*low_quantize)(const kinora_cuda_low*, kinora_tensor x, kinora_tensor amax, kinora_tensor codes,
                          kinora_tensor scales, kinora_tensor global);
  /* x [rows, cols] float32, or bfloat16 rounded to nearest even; COLUMN_MAJOR does not count. */
  int32_t (*low_dequantize)(const kinora_cuda_low*, kinora_tensor codes, kinora_tensor scales,
                            kinora_tensor global, kinora_tensor x);

  /* [any-thread] Attention in FP8 by cuDNN 9. KINORA_ERROR_UNSUPPORTED, with the reason, before Hopper.
   * *fp8_backward: 1: the backward is in FP8 too (Blackwell); 0: in bfloat16, since Hopper's backward in FP8
   * rounds gradients by scales that must be known before. */
  int32_t (*attention_open)(int32_t device, uint32_t* fp8_backward, kinora_cuda_attention** out);
  /* [any-thread] -> out[0] as q: bfloat16, or on Hopper float8_e4m3fn, multiplied by TO_OUT; out[1]: what the
   * backward needs, float32. KINORA_ERROR_UNSUPPORTED, with cuDNN's reason, where it has no plan. */
  int32_t (*attention_forward)(kinora_cuda_attention*, const kinora_cuda_heads*, kinora_tensor* out);
  /* [autograd-thread] grad as q: float8_e5m2, or bfloat16; result as q, bfloat16, not multiplied; more: the
   * forward's out[1] -> gradients of q, k and v, bfloat16. */
  int32_t (*attention_backward)(kinora_cuda_attention*, const kinora_cuda_heads*, kinora_tensor grad,
                                kinora_tensor result, kinora_tensor more, kinora_tensor* out);
  void (*attention_close)(kinora_cuda_attention*);
} kinora_cuda_api;

KINORA_SLOT(kinora_cuda_adamw, struct_size, 0);
KINORA_SLOT(kinora_cuda_adamw, n_averages, 4);
KINORA_SLOT(kinora_cuda_adamw, gradient_factor, 8);
KINORA_SLOT(kinora_cuda_adamw, keep, 16);
KINORA_SLOT(kinora_cuda_adamw, beta1, 24);
KINORA_SLOT(kinora_cuda_adamw, beta2, 32);
KINORA_SLOT(kinora_cuda_adamw, root2, 40);
KINORA_SLOT(kinora_cuda_adamw, eps, 48);
KINORA_SLOT(kinora_cuda_adamw, step, 56);
KINORA_SLOT(kinora_cuda_adamw, averages, 64);
KINORA_SLOT(kinora_cuda_adamw, shares, 72);
KINORA_SIZE(kinora_cuda_adamw, 80);
KINORA_SLOT(kinora_cuda_low, struct_size, 0);
KINORA_SLOT(kinora_cuda_low, format, 4);
KINORA_SLOT(kinora_cuda_low, scaling, 8);
KINORA_SLOT(kinora_cuda_low, rule, 12);
KINORA_SLOT(kinora_cuda_low, flags, 16);
KINORA_SLOT(kinora_cuda_low, noise_stream, 20);
KINORA_SLOT(kinora_cuda_low, noise_seed, 24);
KINORA_SLOT(kinora_cuda_low, noise_row, 32);
KINORA_SLOT(kinora_cuda_low, noise_col, 40);
KINORA_SIZE(kinora_cuda_low, 48);
KINORA_SLOT(kinora_cuda_heads, struct_size, 0);
KINORA_SLOT(kinora_cuda_heads, gradient, 4);
KINORA_SLOT(kinora_cuda_heads, groups, 8);
KINORA_SLOT(kinora_cuda_heads, scale, 16);
KINORA_SLOT(kinora_cuda_heads, q, 24);
KINORA_SLOT(kinora_cuda_heads, k, 32);
KINORA_SLOT(kinora_cuda_heads, v, 40);
KINORA_SLOT(kinora_cuda_heads, numbers, 48);
KINORA_SIZE(kinora_cuda_heads, 56);

KINORA_SLOT(kinora_cuda_memory, struct_size, 0);
KINORA_SLOT(kinora_cuda_memory, reserved, 4);
KINORA_SLOT(kinora_cuda_memory, allocated, 8);
KINORA_SLOT(kinora_cuda_memory, allocated_peak, 16);
KINORA_SLOT(kinora_cuda_memory, reserved_peak, 24);
KINORA_SIZE(kinora_cuda_memory, 32);
KINORA_SLOT(kinora_cuda_api, struct_size, 0);
KINORA_SLOT(kinora_cuda_api, reserved, 4);
KINORA_SLOT(kinora_cuda_api, stream, 8);
KINORA_SLOT(kinora_cuda_api, memory, 16);
KINORA_SLOT(kinora_cuda_api, graphs_open, 24);
KINORA_SLOT(kinora_cuda_api, graphs_record, 32);
KINORA_SLOT(kinora_cuda_api, graphs_replay, 40);
KINORA_SLOT(kinora_cuda_api, graphs_forget, 48);
KINORA_SLOT(kinora_cuda_api, graphs_close, 56);
KINORA_SLOT(kinora_cuda_api, copier_open, 64);
KINORA_SLOT(kinora_cuda_api, copier_send, 72);
KINORA_SLOT(kinora_cuda_api, copier_wait, 80);
KINORA_SLOT(kinora_cuda_api, copier_close, 88);
KINORA_SLOT(kinora_cuda_api, modulate, 96);
KINORA_SLOT(kinora_cuda_api, modulate_backward, 104);
KINORA_SLOT(kinora_cuda_api, norm_rope, 112);
KINORA_SLOT(kinora_cuda_api, norm_rope_backward, 120);
KINORA_SLOT(kinora_cuda_api, gated, 128);
KINORA_SLOT(kinora_cuda_api, gated_backward, 136);
KINORA_SLOT(kinora_cuda_api, gelu, 144);
KINORA_SLOT(kinora_cuda_api, gelu_backward, 152);
KINORA_SLOT(kinora_cuda_api, capability, 160);
KINORA_SLOT(kinora_cuda_api, merge_attention, 168);
KINORA_SLOT(kinora_cuda_api, adamw, 176);
KINORA_SLOT(kinora_cuda_api, low_amax, 184);
KINORA_SLOT(kinora_cuda_api, low_quantize, 192);
KINORA_SLOT(kinora_cuda_api, low_dequantize, 200);
KINORA_SLOT(kinora_cuda_api, attention_open, 208);
KINORA_SLOT(kinora_cuda_api, attention_forward, 216);
KINORA_SLOT(kinora_cuda_api, attention_backward, 224);
KINORA_SLOT(kinora_cuda_api, attention_close, 232);
KINORA_SIZE(kinora_cuda_api, 240);
KINORA_EXTERN_C_END
#endif
