// model/t5 and model/umt5: the encoder of T5 (Raffel et al. 2019, arXiv 1910.10683). UMT5 (Chung et al. 2023,
// arXiv 2304.09151) has one difference: every layer has its own relative positions. Names are those of
// transformers' T5EncoderModel and UMT5EncoderModel.
//
// The text is the same on every rank of the model, so its tokens are not a sequence of the context: seq is 0
// throughout. B batch, L tokens, H local heads, D d_model.
#pragma once
#include <string>
#include <vector>

#include "kinora/layers.hpp"
#include "kinora/model.hpp"
#include "plugins/models/t5/config.hpp"

namespace kinora::t5 {

class Layer {
 public:
  // block: its index for the context; layer block - 1 of the checkpoint. places: it has relative positions.
  Layer(const Ctx& ctx, const Config& c, int64_t block, bool places)
      : Layer(Declare(ctx, "encoder.block." + std::to_string(block - 1) + ".", block), c, places) {}
  // valid: bool [B, L]. where: the bias [1, H, L, L] of positions, or buckets [L, L] if the layer has its
  // own table.
  at::Tensor operator()(const Ctx& ctx, const at::Tensor& x, const at::Tensor& valid,
                        const at::Tensor& where) const;

 private:
  Layer(const Declare& declare, const Config& c, bool places);
  at::Tensor attend(const Ctx& ctx, const at::Tensor& x, const at::Tensor& valid,
                    const at::Tensor& bias) const;
  at::Tensor mlp(const Ctx& ctx, const at::Tensor& x) const;

  Config c_;
  Heads heads_;
  kinora_param attend_norm_, places_ = 0, mlp_norm_;
  Linear q_, k_, v_, o_, wi_0_, wi_1_, wo_;
};

// Common base of both; places_everywhere means UMT5.
class Encoder : public Model<at::Tensor> {
 public:
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return c_.num_layers + 2; }

 protected:
  Encoder(std::string id, const Config& c, const Ctx& ctx, bool places_everywhere);

 private:
  std::string id_;
  Config c_;
  kinora_param words_, places_ = 0, final_norm_;
  std::vector<Layer> layers_;
};

class T5 final : public Encoder {
 public:
  using Options = Config;
  static void describe(Describe<Options>& d) { t5::describe(d); }
  T5(const Options& o, const Ctx& ctx) : Encoder("model/t5", o, ctx, false) {}
};

class Umt5 final : public Encoder {
 public:
  using Options = Umt5Config;
  static void describe(Describe<Options>& d) { t5::describe(d); }
  Umt5(const Options& o, const Ctx& ctx) : Encoder("model/umt5", o, ctx, true) {}
};

}  // namespace kinora::t5
