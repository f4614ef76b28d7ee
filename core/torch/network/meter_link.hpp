// Counts the floating-point operations of a forward. The link is on top of the chain, so the counts are the
// model's own (one process, no recomputation), whatever links are below it.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"
#include "core/torch/weights/weights.hpp"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::core {

// A multiply-add counts as 2. Keyed by name: the weight's parameter, or the attention's own name.
//   linear       2 rows in out
//   attention    2 S L heads (d_qk + d_v), that is 2 * 2 S L D: every query with every key of its `over`,
//                also keys hidden by the run's visibility rule or a text mask; in a packed row only the
//                keys of its own video
//   convolution  2 outputs kernel in_channels / groups, counted on the meta device only
// Norms, activations, positions, modulation and softmax are not counted.
struct Flops {
  std::map<std::string, double> linear, attention;
  double convolution = 0;
  double linear_total() const;
  double attention_total() const;
  double total() const { return linear_total() + attention_total() + convolution; }
};

// A backward costs two forwards, for the gradients of the inputs and of the weights; with recomputation the
// blocks' forward runs once more.
constexpr double kTrainingStep = 3, kTrainingStepRecompute = 4;

class MeterLink final : public kinora::Link<at::Tensor> {
 public:
  MeterLink() : Link(KINORA_LEVEL_METER) { skip_inherited<MeterLink>(); }
  // Counts since the last reset(), without convolutions, which do not pass through the context.
  const Flops& flops() const { return flops_; }
  void reset() { flops_ = {}; }

  kinora_param parameter(const kinora_param_spec& spec) override;
  at::Tensor linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;
  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  at::Tensor reshard(const at::Tensor& x, kinora_seq seq, Over over, kinora_seq& to) override;

 private:
  struct Weight {
    std::string name;
    int64_t out, in;
    bool column;
  };
  struct Video {
    int64_t frames, space;
    int64_t tokens() const { return frames * space; }
  };
  // Tokens of a sequence in one process, or `otherwise` for a shared tensor.
  int64_t tokens(kinora_seq seq, int64_t otherwise) const;
  // Query-key pairs in one row of the batch.
  double pairs(const kinora_attention& how, int64_t queries, int64_t keys) const;
  Flops flops_;
  std::map<kinora_param, Weight> weights_;
  std::map<kinora_seq, std::vector<Video>> sequences_;  // one video, or several in a packed row
  int64_t cut_ = 1;  // ranks that share the heads: the shards of the last COLUMN weight
};

// Counts operations of the convolutions that this thread runs on the meta device during the object's
// lifetime.
class ConvolutionMeter {
 public:
  ConvolutionMeter();
  ConvolutionMeter(const ConvolutionMeter&) = delete;
  ConvolutionMeter& operator=(const ConvolutionMeter&) = delete;
  ~ConvolutionMeter();
  double flops() const { return flops_; }

 private:
  double flops_ = 0, *before_;
};
// Called by the meta device's convolution (meta_kernels.cpp).
void count_convolution(double flops);

// Counts one call on the meta device, at any size: nothing is allocated. Only shapes and dtypes of the inputs matter,
// except for inputs whose values are sizes (`sizes`, `grid`, `position`).
Flops model_flops(const Component& component, const Options& options, const NamedTensors& inputs);
struct TokenizerFlops {
  std::optional<Flops> encode, decode;
};
// Counts encoding a video and decoding a latent. An undefined video is not encoded; an undefined latent is the
// video's.
TokenizerFlops tokenizer_flops(const Component& component, const Options& options, const at::Tensor& video,
                               const at::Tensor& latent = {});

// Operations of a forward and a backward. frozen: the matrices have no gradients of their own, and those of
// an adapter are not counted. Returns 0 for a model that cannot run on the meta device; `why` then gives the
// reason.
double training_flops(const Component& component, const Options& options, const NamedTensors& inputs,
                      bool frozen, std::string& why);

}  // namespace kinora::core
