// A video denoiser without its layers: patches, conditions, positions, head.
//
// B batch, C channels, D width.
#pragma once
#include <string>
#include <vector>

#include "kinora/model.hpp"
#include "kinora/patches.hpp"
#include "plugins/models/dit/condition.hpp"
#include "plugins/models/dit/modulate.hpp"

namespace kinora::dit {

class Denoiser : public Model<at::Tensor> {
 public:
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return options_.layers + 2; }

 protected:
  // c: validated.
  Denoiser(const Config& c, std::string id, const Ctx& ctx);
  // Declares the parameters of layer i (from 0).
  static Declare layer_declare(const Ctx& ctx, int64_t i) {
    return {ctx, "decoder.layers." + std::to_string(i) + ".", i + 1};
  }
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
  // turns and rows, for each layout.
  void place(const Ctx& ctx, const Named<at::Tensor>& in, const Videos& videos,
             const std::vector<kinora_seq>& seqs, const at::Tensor& x, Shared& to) const;
  at::Tensor embed(const Ctx& ctx, kinora_seq seq, const at::Tensor& x) const;
  at::Tensor head(const Ctx& ctx, kinora_seq from, kinora_seq seq, const at::Tensor& x,
                  const at::Tensor& active, const at::Tensor& row) const;

  std::string id_;
  Linear embed_, out_;
  std::vector<kinora_param> position_;  // time, rows, columns, if learnt
  Condition condition_;
  AdaLn final_;
};

}  // namespace kinora::dit
