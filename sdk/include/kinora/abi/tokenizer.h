/* kinora.tokenizer/1-draft.2: video <-> latent.                                               draft
 *
 * It is causal: one first frame, then groups of `time` frames, so T frames give 1 + (T - 1) / time latent
 * frames.
 *
 * Calls that take a run end with KINORA_ERROR_CANCELLED soon after it was asked to stop. The run's device is that
 * of the tensors, and in open() that of the parameters.
 *
 * Draft: it becomes 1.0 together with kinora.context, and when decoders that look ahead have been built on
 * it. */
#ifndef KINORA_ABI_TOKENIZER_H
#define KINORA_ABI_TOKENIZER_H
#include "kinora/abi/context.h"
#include "kinora/abi/host.h"
#include "kinora/abi/layout.h"
#include "kinora/abi/options.h"
#include "kinora/abi/run.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_TOKENIZER "kinora.tokenizer/1-draft.2"

typedef struct kinora_tokenizer_info {
  uint32_t struct_size;
  uint32_t discrete; /* 1: the latent is int32 codes [B, t, h, w]; 0: [B, channels, t, h, w] in the video's
                        dtype */
  int64_t channels;  /* channels of the latent, 1 for codes */
  int64_t
      time; /* compression factors: frames, rows, columns of the video per frame, row, column of the latent */
  int64_t height;
  int64_t width;
  int64_t codes;       /* size of the vocabulary, 0 for a continuous tokenizer */
  int64_t decode_span; /* number of latent frames that decoding one depends on, itself and earlier ones; 0:
                          all of them */
  int64_t encode_span; /* the same of encoding one */
} kinora_tokenizer_info;

typedef struct kinora_tokenizer {
  uint32_t struct_size;
  uint32_t reserved;
  /* [owner-thread] As kinora_model.create. */
  void* (*create)(const kinora_host*, const kinora_options*, const kinora_context*);
  void (*destroy)(void* self);
  /* [any-thread] Fills *out in (KINORA_FILL). */
  int32_t (*info)(void* self, kinora_tokenizer_info* out);
  /* [owner-thread] video [B, 3, T, H, W] in [-1, 1] -> latent. `posterior`: the moments [B, 2C, t, h, w] of a
   * variational encoder (the latent is then its mode), the code vectors of a discrete tokenizer, else null.
   */
  int32_t (*encode)(void* self, const kinora_run*, const kinora_context*, kinora_tensor video,
                    kinora_tensor* latent, kinora_tensor* posterior);
  /* [owner-thread] latent -> video [B, 3, T, H, W]; not clamped. A discrete tokenizer takes integer codes, or
   * their vectors as in encode's posterior, a floating-point tensor. Codes have no gradient, so training
   * decodes the vectors. */
  int32_t (*decode)(void* self, const kinora_run*, const kinora_context*, kinora_tensor latent,
                    kinora_tensor* video);
  /* [owner-thread] Opens a stream, which maps consecutive pieces to their results, equal to encode / decode
   * of the whole. Any number of streams may be open. decoding: 0 encodes, 1 decodes. The run is that of
   * this call: each push() has its own. Null: KINORA_ERROR_UNSUPPORTED. */
  int32_t (*open)(void* self, const kinora_run*, const kinora_context*, int32_t decoding, void** stream);
  /* [owner-thread], the tokenizer's own calls included. The next piece, with the leading and trailing sizes
   * of encode / decode. The first piece to encode has 1 + k * info.time frames, every later one k *
   * info.time; pieces to decode have any number of latent frames from 1. *out: the result of this piece,
   * never null. The stream keeps the state that later pieces depend on: its size does not grow with the
   * length, unless the span is 0. A piece that is rejected (KINORA_ERROR_INVALID) or cancelled leaves the
   * stream unchanged. */
  int32_t (*push)(void* stream, const kinora_run*, kinora_tensor piece, kinora_tensor* out);
  /* [owner-thread] At any time; drops the stream's state. */
  void (*close)(void* stream);
  /* [any-thread] As kinora_model.layout. */
  const kinora_layout* (*layout)(uint64_t i);
  /* [owner-thread] Initial parameters in closed form, instead of random ones: values of whole parameters, by
   * name, that suit `video` [B, 3, T, H, W]. `value` is called once for each, and owns the tensor; a
   * parameter that is not named keeps its initial values. The same values for the same video on every rank.
   * Null: KINORA_ERROR_UNSUPPORTED. */
  int32_t (*fit)(void* self, const kinora_run*, const kinora_context*, kinora_tensor video, void* to,
                 void (*value)(void* to, const char* name, kinora_tensor));
} kinora_tokenizer;

KINORA_SLOT(kinora_tokenizer_info, struct_size, 0);
KINORA_SLOT(kinora_tokenizer_info, discrete, 4);
KINORA_SLOT(kinora_tokenizer_info, channels, 8);
KINORA_SLOT(kinora_tokenizer_info, time, 16);
KINORA_SLOT(kinora_tokenizer_info, height, 24);
KINORA_SLOT(kinora_tokenizer_info, width, 32);
KINORA_SLOT(kinora_tokenizer_info, codes, 40);
KINORA_SLOT(kinora_tokenizer_info, decode_span, 48);
KINORA_SLOT(kinora_tokenizer_info, encode_span, 56);
KINORA_SIZE(kinora_tokenizer_info, 64);
KINORA_SLOT(kinora_tokenizer, struct_size, 0);
KINORA_SLOT(kinora_tokenizer, reserved, 4);
KINORA_SLOT(kinora_tokenizer, create, 8);
KINORA_SLOT(kinora_tokenizer, destroy, 16);
KINORA_SLOT(kinora_tokenizer, info, 24);
KINORA_SLOT(kinora_tokenizer, encode, 32);
KINORA_SLOT(kinora_tokenizer, decode, 40);
KINORA_SLOT(kinora_tokenizer, open, 48);
KINORA_SLOT(kinora_tokenizer, push, 56);
KINORA_SLOT(kinora_tokenizer, close, 64);
KINORA_SLOT(kinora_tokenizer, layout, 72);
KINORA_SLOT(kinora_tokenizer, fit, 80);
KINORA_SIZE(kinora_tokenizer, 88);
KINORA_EXTERN_C_END
#endif
