// model/dit and model/stdit: video diffusion transformers as NeMo builds them (arXiv 2503.12964,
// sections 4.2, 4.5 and 4.6).
#pragma once
#include <memory>
#include <vector>

#include "plugins/models/dit/attend.hpp"
#include "plugins/models/dit/denoiser.hpp"

namespace kinora::dit {

// Full attention, cross-attention to the text, MLP. One modulation per layer: a shift, a scale and a gate for
// each.
class Layer {
 public:
  Layer(const Declare& declare, const Config& c);
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, at::Tensor x, const Shared& s) const;

 private:
  AdaLn modulation_;
  SelfAttend full_;
  std::unique_ptr<CrossAttend> cross_;  // null: no text
  FeedForward mlp_;
};

class Dit final : public Denoiser {
 public:
  using Options = Config;
  static void describe(Describe<Options>& d);
  Dit(const Options& o, const Ctx& ctx);

 protected:
  at::Tensor layer(const Ctx& ctx, size_t i, const at::Tensor& x, kinora_seq from,
                   const Shared& s) const override;

 private:
  std::vector<Layer> layers_;
};

// Spatial attention within each frame, full attention, cross-attention, temporal attention of each position,
// MLP, with one shift, scale and gate for all of them. The stream is resharded to the cheapest layout for
// each: at most three times per layer, because a layer returns its tokens in the layout of the temporal
// attention.
class StLayer {
 public:
  StLayer(const Declare& declare, const StConfig& c);
  // The layouts of s.turns and s.rows.
  enum Layout : size_t { all, space, time };
  at::Tensor operator()(const Ctx& ctx, kinora_seq from, at::Tensor x, const Shared& s) const;

 private:
  AdaLn modulation_;
  SelfAttend spatial_, temporal_;
  std::unique_ptr<SelfAttend> full_;
  std::unique_ptr<CrossAttend> cross_;
  FeedForward mlp_;
};

class StDit final : public Denoiser {
 public:
  using Options = StConfig;
  static void describe(Describe<Options>& d);
  StDit(const Options& o, const Ctx& ctx);

 protected:
  std::vector<kinora_seq> layouts(const Ctx& ctx, kinora_seq seq, const at::Tensor& x) const override;
  at::Tensor layer(const Ctx& ctx, size_t i, const at::Tensor& x, kinora_seq from,
                   const Shared& s) const override;

 private:
  bool full_;
  std::vector<StLayer> layers_;
};

}  // namespace kinora::dit
