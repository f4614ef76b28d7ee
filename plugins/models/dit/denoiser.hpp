// A video denoiser without its layers: patches, conditions, positions, head.
//
// B batch, C channels, D width.
#pragma once
#include <string>
#include <vector>

#include "kinora/model.hpp"
#include "plugins/models/dit/condition.hpp"
#include "plugins/models/dit/modulate.hpp"

namespace kinora::dit {

// [B, C, F * pt, h * p, w * p] -> [B, F * h * w, p * p * pt * C], channel innermost (NeMo's order), and back.
at::Tensor patchify(const at::Tensor& latent, int64_t patch_time, int64_t patch_space);
at::Tensor unpatchify(const at::Tensor& x, int64_t F, int64_t h, int64_t w, int64_t patch_time,
                      int64_t patch_space);

class Denoiser : public Model<at::Tensor> {
 public:
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return options_.layers + 2; }

 protected:
  // c: validated.
  Denoiser(const Config& c, std::string id, const Ctx& ctx);
  // Prefix under which layer i (from 0) declares its parameters, and the index of its block.
  Declare layer_declare(const Ctx& ctx, int64_t i) const { return {ctx, layer_name(i), i + 1}; }
  static std::string layer_name(int64_t i) { return "decoder.layers." + std::to_string(i) + "."; }
  // The layouts of the stream in which a layer works, `seq` first; tokens leave a layer in the last one. x:
  // the tokens of `seq`.
  virtual std::vector<kinora_seq> layouts(const Ctx&, kinora_seq seq, const at::Tensor&) const {
    return {seq};
  }
  // x is in the layout `from`; Shared::turns and rows are those of layouts().
  virtual at::Tensor layer(const Ctx& ctx, size_t i, const at::Tensor& x, kinora_seq from,
                           const Shared& s) const = 0;
  const Config options_;

 private:
  // The latent with the channels that accompany it.
  at::Tensor input(const Named<at::Tensor>& in) const;
  // turns and rows, for each layout.
  void place(const Ctx& ctx, const Named<at::Tensor>& in, const Videos& videos,
             const std::vector<kinora_seq>& seqs, const at::Tensor& x, Shared& to) const;
  at::Tensor embed(const Ctx& ctx, kinora_seq seq, const at::Tensor& x) const;
  at::Tensor head(const Ctx& ctx, kinora_seq from, kinora_seq seq, const at::Tensor& x,
                  const at::Tensor& active, const at::Tensor& row) const;

  std::string id_;
  kinora_param embed_, embed_bias_, out_, out_bias_;
  std::vector<kinora_param> position_;  // time, rows, columns, if learnt
  Condition condition_;
  AdaLn final_;
};

}  // namespace kinora::dit
