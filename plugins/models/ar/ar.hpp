// model/ar: next-token transformer over discrete video codes (Cosmos, arXiv 2501.03575, section 5.2). Layout
// and names are those of Cosmos-Predict1's autoregressive networks, with a learnt vector in front of the
// video instead of a special code.
//
// B batch, N codes in the order frames, rows, columns, V vocabulary, D width.
#pragma once
#include <vector>

#include "kinora/model.hpp"
#include "plugins/models/ar/layer.hpp"

namespace kinora::ar {

class Ar final : public Model<at::Tensor> {
 public:
  using Options = Config;
  static constexpr uint32_t sees = KINORA_SEES_BEFORE;
  static void describe(Describe<Options>& d) { ar::describe(d); }
  Ar(const Options& o, const Ctx& ctx);
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return options_.n_layers + 2; }

 private:
  // The code before each position, -1 at the beginning.
  struct Input {
    at::Tensor codes;              // int64 [B, N]
    int64_t frames, rows, cols;    // of these codes, for the context
    int64_t grid_rows, grid_cols;  // of the video, for RoPE; 0: 1D
    int64_t position;
  };
  Input input(const Named<at::Tensor>& in) const;
  // table: the embedding's weights. codes int64 [B, S, 1] -> [B, S, D]
  at::Tensor embed(const Ctx& ctx, const at::Tensor& codes, const at::Tensor& table) const;
  void check_place(const at::Tensor& index, int64_t position) const;
  // text and text_mask, if present.
  std::vector<at::Tensor> text(const Named<at::Tensor>& in, int64_t B) const;

  Options options_;
  kinora_param table_, begin_, norm_;
  Linear out_;
  std::vector<Layer> layers_;
};

}  // namespace kinora::ar
