// Size of a diffusion transformer: parameters, operations and kept tensors of a layer.
//
// N tokens of a sample, D width, H heads of h channels, F hidden channels of the MLP. A multiply-add counts
// as 2. Agrees with `kinora inspect` on the same model (test `plan`).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace kinora::core::plan {

// The keys that a token attends to: all of the sample, those of its frame, those of its place in all frames,
// the text.
enum class Sight { all, frame, time, text };

struct Shape {
  std::string model = "model/dit";
  int64_t layers = 28, heads = 32, kv_heads = 32, head_size = 128;
  int64_t mlp = 16384;     // F
  int64_t modulation = 0;  // parameters of a layer's adaptive norms
  int64_t outer = 0;       // parameters outside of the layers
  int64_t text_size = 4096, text_tokens = 512;
  bool cross = true;                      // cross-attention to the text
  bool factorised = false;                // ST-DiT: attention within frames and along time ...
  bool full = true;                       // ... and, if this is set, over all tokens too
  int64_t frames = 1, patches = 1;        // of a latent: N = frames * patches
  int64_t in_patch = 64, out_patch = 64;  // values per token at input and output

  // Teacher forcing (LongLive 2.0): a clean and a noisy copy of every frame, in blocks of frames; a block
  // sees the clean blocks before it. The step includes encoding the video.
  bool teacher_forcing = false;
  int64_t block_frames = 8;
  double encode_flops = 0;  // of the tokenizer, per latent frame
  int64_t encode_halo = 0;  // latent frames before a part of the video that are encoded with it

  int64_t width() const { return heads * head_size; }
  // Units that pipelines distribute: embedding and head are blocks too.
  int64_t blocks() const { return layers + 2; }
  int64_t kv_width() const { return kv_heads * head_size; }
  int64_t tokens() const { return frames * patches * (teacher_forcing ? 2 : 1); }
  // A layer's self-attentions, in order.
  std::vector<Sight> selves() const;
  // Query-key pairs of one sample that an attention computes.
  double pairs(Sight) const;
  // The same for the busiest of `parts` equal contiguous parts of the sequence.
  double busiest_pairs(Sight, int64_t parts) const;

  double layer_parameters() const;
  double parameters() const {
    return static_cast<double>(layers) * layer_parameters() + static_cast<double>(outer);
  }
  // Operations of a forward of one sample; a training step takes three times as many.
  double forward_flops() const;
  double step_flops() const { return 3 * forward_flops(); }
};

// A tensor that a layer's backward reads, with its values per token in units of one channel.
struct Kept {
  const char* name;
  double channels;
};
std::vector<Kept> kept_tensors(const Shape&);
// The part of them that remains when a block is recomputed in the backward: its input.
double kept_input(const Shape&);

}  // namespace kinora::core::plan
