// Size of a transformer: parameters, operations and kept tensors of a layer.
//
// N tokens of a sample, D width of the stream. A layer is a list of branches, each of which reads the stream
// and adds to it: linear layers from D to its inner channels, attention or an activation, and a linear layer
// back to D. A multiply-add counts as 2. Agrees with `kinora inspect` on the same model (test `plan`).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.hpp"
#include "plugins/jobs/windows/model_outline.hpp"

namespace kinora::core::plan {

// The tokens that a token attends to: all of the sample, those of its frame, those of its place in all
// frames, none.
enum class Sight { all, frame, time, none };

struct Attention {
  Sight sight = Sight::all;
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  int64_t shared_keys = 0;  // keys that are not tokens: the text's
  int64_t channels() const { return heads * head_size; }
  int64_t kv_channels() const { return kv_heads * head_size; }
  bool operator==(const Attention&) const = default;
};

// Linear layers of data that is not tokens: keys and values of the text.
struct SharedLinear {
  int64_t rows = 0, in = 0, out = 0;
  bool operator==(const SharedLinear&) const = default;
};

struct Branch {
  int64_t in = 0, columns = 0;  // from the stream: [N, in] -> [N, columns]
  int64_t inner = 0, out = 0;   // back to it: [N, inner] -> [N, out]
  std::vector<SharedLinear> shared;
  std::vector<Attention> attentions;  // none: an MLP
  double share = 1;                   // of the layers that have this branch

  // Channels of queries and of keys that are tokens: those that are normed and turned by positions.
  int64_t normed() const;
  bool operator==(const Branch&) const = default;
};

struct Shape {
  std::string model = "model/dit";
  int64_t layers = 28, width = 4096;
  std::vector<Branch> branches;     // of a layer, in order
  double layer_parameters = 0;      // the layers' mean
  double outer = 0;                 // parameters outside of the layers
  double ends = 0;                  // weights of embedding and head, which each token passes
  double other_flops = 0;           // per sample, of linear layers of conditioning
  int64_t frames = 1, patches = 1;  // of a latent: N = frames * patches

  // Teacher forcing (LongLive 2.0): a clean and a noisy copy of every frame, in blocks of frames; a block
  // sees the clean blocks before it. The step includes encoding the video.
  bool teacher_forcing = false;
  int64_t block_frames = 8;
  double encode_flops = 0;  // of the tokenizer, per latent frame
  int64_t encode_halo = 0;  // latent frames before a part of the video that are encoded with it

  // Units that pipelines distribute: embedding and head are blocks too.
  int64_t blocks() const { return layers + 2; }
  int64_t tokens() const { return frames * patches * (teacher_forcing ? 2 : 1); }
  // The most channels of keys that are tokens.
  int64_t kv_width() const;
  // Values of the text and other data that the layers read, per sample.
  int64_t shared_values() const;
  // Whether an attention is within frames or along time.
  bool factorised() const;
  // Heads of the first attention of tokens; 1: there is none.
  int64_t heads() const;
  // Query-key pairs of one sample that an attention computes, among tokens.
  double pairs(Sight) const;
  // The same for the busiest of `parts` equal contiguous parts of the sequence.
  double busiest_pairs(Sight, int64_t parts) const;

  double parameters() const { return static_cast<double>(layers) * layer_parameters + outer; }
  // Operations of a forward of one sample; a training step takes three times as many.
  double forward_flops() const;
  double step_flops() const { return 3 * forward_flops(); }
};

// Sorts the calls of a model's layers, blocks 1 to N of N + 2, into branches. KINORA_ERROR_INVALID for a
// model without such blocks.
Result<Shape> shape_of(const ModelOutline&);

// Values per token and layer that the layer's backward reads.
double kept_channels(const Shape&);

}  // namespace kinora::core::plan
