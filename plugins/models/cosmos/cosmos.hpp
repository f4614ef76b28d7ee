// model/cosmos: the video diffusion transformer of Cosmos-Predict 1 and 2 (arXiv 2501.03575, section 5).
// Layout, names and numbers are those of diffusers' CosmosTransformer3DModel.
//
// B batch, C channels, T H W the latent's frames, rows, columns; F h w the tokens'; N = F * h * w; R rows of
// conditioning (1, F or N); D width. For a packed row of n videos, see kinora/videos.hpp.
#pragma once
#include <vector>

#include "kinora/model.hpp"
#include "kinora/signals.hpp"
#include "plugins/models/cosmos/block.hpp"
#include "plugins/models/cosmos/config.hpp"

namespace kinora::cosmos {

// [B, C, F * pt, h * p, w * p] -> [B, F * h * w, C * pt * p * p], channel outermost.
at::Tensor patchify(const at::Tensor& latent, int64_t patch_time, int64_t patch_space);
// [B, F * h * w, p * p * pt * C], channel innermost (the published head is not patchify's inverse) -> [B, C,
// T, H, W].
at::Tensor unpatchify(const at::Tensor& x, int64_t F, int64_t h, int64_t w, int64_t patch_time,
                      int64_t patch_space);
// t [...] -> [..., size]: cosines, then sines, of t * 10000^(-2i / size); in at least float32.
at::Tensor sinusoid(const at::Tensor& t, int64_t size);

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
  void declare_position(const Ctx& ctx);
  void declare_variance(const Ctx& ctx);
  void condition(const Ctx& ctx, const Named<at::Tensor>& in, const Videos& videos, const at::Tensor& x,
                 Shared& s) const;
  // text and text_mask of each video, [count, L, ...].
  void read_text(const Named<at::Tensor>& in, const at::Tensor& x, int64_t count, Shared& s) const;
  at::Tensor learnt_position(const Ctx& ctx, kinora_seq seq, const at::Tensor& x) const;
  // x: tokens. timestep: undefined, or [B, R], whose log-variance is then the last channel.
  at::Tensor head(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Shared& s,
                  const at::Tensor& timestep) const;
  at::Tensor log_variance(const Ctx& ctx, const at::Tensor& timestep) const;

  Options options_;
  kinora_param embed_, time_in_, time_out_, time_norm_, out_;
  std::vector<kinora_param> position_;  // time, rows, columns, if learnt
  std::vector<Block> blocks_;
  AdaLn norm_out_;
  Signals signals_;
  kinora_param frequencies_ = 0, phases_ = 0, variance_ = 0;  // for logvar, if requested
};

}  // namespace kinora::cosmos
