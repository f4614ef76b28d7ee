/* Latents that are half the video [B, 3, T, H, W], each tokenizer with one defect. */
#include "kinora/abi/tokenizer.h"
#include "tensors.h"

enum { none, shape, later, memory, crash, fails, leak, careless };

/* A tokenizer, or a stream of it. */
typedef struct tokenizer {
  with_tensors base;
  int decoding, pieces;
} tokenizer;

static int32_t info(void* me, kinora_tokenizer_info* out) {
  const tokenizer* t = me;
  const kinora_tokenizer_info one = {.struct_size = sizeof one,
                                     .channels = t->base.base.mode == shape ? 4 : 3,
                                     .time = 1,
                                     .height = 1,
                                     .width = 1,
                                     .decode_span = 1,
                                     .encode_span = 1};
  KINORA_FILL(out, &one);
  return KINORA_OK;
}

static int32_t mapped(tokenizer* t, const kinora_run* run, int decoding, kinora_tensor x,
                      kinora_tensor* out) {
  static int64_t calls = 0;
  if (run->needs && t->base.base.mode != careless)
    return error(&t->base.base, KINORA_ERROR_UNSUPPORTED, "needs of the run");
  const int64_t n = dimensions(&t->base, x);
  if (n == 0 && t->base.base.mode == crash) abort();
  if (n != 5) return error(&t->base.base, KINORA_ERROR_INVALID, "a tensor [B, 3, T, H, W] is expected");
  const double more = t->base.base.mode == memory ? 1 + 1e-14 * (double)calls++ : 1;
  const int32_t status = scaled(&t->base, x, (decoding ? 2 : 0.5) * more, out);
  return status == KINORA_OK && t->base.base.mode == leak ? leaked(&t->base, *out) : status;
}

static int32_t encode(void* me, const kinora_run* run, const kinora_context* context, kinora_tensor video,
                      kinora_tensor* latent, kinora_tensor* posterior) {
  const tokenizer* t = me;
  (void)context;
  *posterior = NULL;
  if (t->base.base.mode == fails) return error(&t->base.base, KINORA_ERROR_FAILED, "never works");
  return mapped(me, run, 0, video, latent);
}
static int32_t decode(void* me, const kinora_run* run, const kinora_context* context, kinora_tensor latent,
                      kinora_tensor* video) {
  (void)context;
  return mapped(me, run, 1, latent, video);
}

static int32_t open_stream(void* me, const kinora_run* run, const kinora_context* context, int32_t decoding,
                           void** stream) {
  const tokenizer* t = me;
  (void)run, (void)context;
  tokenizer* s = make_with_tensors(t->base.base.host, t->base.base.mode, sizeof *s);
  if (!s) return KINORA_ERROR_NO_MEMORY;
  s->decoding = decoding;
  *stream = s;
  return KINORA_OK;
}
static int32_t push(void* stream, const kinora_run* run, kinora_tensor piece, kinora_tensor* out) {
  tokenizer* s = stream;
  if (s->pieces++ && s->base.base.mode == later) return scaled(&s->base, piece, 0.25, out);
  return mapped(s, run, s->decoding, piece, out);
}

#define TOKENIZER(MODE)                                                            \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given, \
                             const kinora_context* context) {                      \
    (void)given, (void)context;                                                    \
    return make_with_tensors(host, MODE, sizeof(tokenizer));                       \
  }                                                                                \
  static const kinora_tokenizer table_##MODE = {sizeof(kinora_tokenizer),          \
                                                0,                                 \
                                                create_##MODE,                     \
                                                destroy,                           \
                                                info,                              \
                                                encode,                            \
                                                decode,                            \
                                                open_stream,                       \
                                                push,                              \
                                                destroy,                           \
                                                NULL,                              \
                                                NULL};
TOKENIZER(none)
TOKENIZER(shape)
TOKENIZER(later)
TOKENIZER(memory)
TOKENIZER(crash)
TOKENIZER(fails)
TOKENIZER(leak)
TOKENIZER(careless)
#define ONE(MODE) COMPONENT("tokenizer", KINORA_INTERFACE_TOKENIZER, MODE, NULL)
BROKEN_PLUGIN("tokenizers", ONE(none), ONE(shape), ONE(later), ONE(memory), ONE(crash), ONE(fails), ONE(leak),
              ONE(careless))
