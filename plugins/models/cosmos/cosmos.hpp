// model/cosmos: the video diffusion transformer of Cosmos-Predict 1 and 2 (arXiv 2501.03575, section 5).
// Layout, names and numbers are those of diffusers' CosmosTransformer3DModel.
//
// B batch, C channels, T H W the latent's frames, rows, columns; F h w the tokens'; N = F * h * w; R rows of
// conditioning (1, F or N); D width. For a packed row of n videos, see kinora/videos.hpp.
#pragma once
#include <vector>

#include "kinora/model.hpp"
#include "kinora/patches.hpp"
#include "kinora/signals.hpp"
#include "plugins/models/cosmos/block.hpp"

namespace kinora::cosmos {

class Cosmos final : public Model<at::Tensor> {
 public:
  using Options = Config;
  static void describe(Describe<Options>& d) { cosmos::describe(d); }
  Cosmos(const Options& o, const Ctx& ctx);
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return options_.layers + 2; }

 private:
  // The latent with its mask channels, validated.
  at::Tensor input(const Named<at::Tensor>& in, const Videos& videos) const;
  at::Tensor padding(const Named<at::Tensor>& in, const Videos& videos, const at::Tensor& x) const;
  // x: the local tokens, for their dtype and device.
  Shared shared(const Ctx& ctx, const Named<at::Tensor>& in, const Videos& videos, kinora_seq seq,
                const at::Tensor& x) const;
  Videos::Size patch() const { return {options_.patch_time, options_.patch_space, options_.patch_space}; }
  void declare_position(const Ctx& ctx);
  void declare_variance(const Ctx& ctx);
  void condition(const Ctx& ctx, const Named<at::Tensor>& in, const Videos& videos, const at::Tensor& x,
                 Shared& s) const;
  at::Tensor learnt_position(const Ctx& ctx, kinora_seq seq, const at::Tensor& x) const;
  // x: tokens. timestep: undefined, or [B, R], whose log-variance is then the last channel.
  at::Tensor head(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Shared& s,
                  const at::Tensor& timestep) const;
  at::Tensor log_variance(const Ctx& ctx, const at::Tensor& timestep) const;

  Options options_;
  Linear embed_, out_;
  Embedder time_;
  kinora_param time_norm_;
  std::vector<kinora_param> position_;  // time, rows, columns, if learnt
  std::vector<Block> blocks_;
  Modulation norm_out_;
  Signals signals_;
  kinora_param frequencies_ = 0, phases_ = 0;  // for logvar, if requested
  Linear variance_;
};

}  // namespace kinora::cosmos
