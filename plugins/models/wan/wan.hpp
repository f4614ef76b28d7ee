// model/wan: the video diffusion transformer of Wan 2.1 and 2.2 (arXiv 2503.20314, section 4.2). Layout and
// names are those of diffusers' WanTransformer3DModel; angles and conditioning have the precision of Wan's
// own code.
//
// B batch, C channels, T H W the latent's frames, rows, columns; F h w the tokens'; N = F * h * w; D width;
// R rows of conditioning (1, F or N). For a packed row of n videos, see kinora/videos.hpp.
#pragma once
#include <vector>

#include "kinora/model.hpp"
#include "kinora/patches.hpp"
#include "kinora/signals.hpp"
#include "plugins/models/wan/block.hpp"

namespace kinora::wan {

class Wan final : public Model<at::Tensor> {
 public:
  using Options = Config;
  static void describe(Describe<Options>& d) { wan::describe(d); }
  Wan(const Options& o, const Ctx& ctx);
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return options_.num_layers + 2; }

 private:
  Videos::Size patch() const {
    return {options_.patch_size[0], options_.patch_size[1], options_.patch_size[2]};
  }
  at::Tensor embed(const Ctx& ctx, const at::Tensor& patches) const;
  // [B, R, D] for the noise level and the signals. x: the local tokens, for their dtype and device.
  at::Tensor time(const Ctx& ctx, const Named<at::Tensor>& in, const Videos& videos,
                  const at::Tensor& x) const;
  // The image of each video, [count, ...].
  void read_image(const Ctx& ctx, const Named<at::Tensor>& in, const at::Tensor& x, int64_t count,
                  Shared& s) const;
  // time [B, R, D], row: Shared::row.
  at::Tensor head(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const at::Tensor& time,
                  const at::Tensor& row) const;

  Options options_;
  Linear patch_, modulation_, text_in_, text_out_, image_up_, image_down_, out_;
  Embedder time_;
  LayerNorm image_norm_in_, image_norm_out_;
  kinora_param image_position_ = 0, table_ = 0;
  std::vector<Block> blocks_;
  Signals signals_;
};

}  // namespace kinora::wan
