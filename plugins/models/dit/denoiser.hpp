// A video denoiser without its layers: patches, conditions, positions, modulation, head.
//
// B batch, C channels, D width; R rows of conditioning (1, one per frame or one per token), S local tokens, L
// text tokens. For a packed row of n videos B is 1, R counts all their frames or tokens, L all their tokens
// of text.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "kinora/block_inputs.hpp"
#include "kinora/layers.hpp"
#include "kinora/model.hpp"
#include "kinora/patches.hpp"
#include "kinora/rope.hpp"
#include "kinora/signals.hpp"
#include "plugins/models/dit/config.hpp"

namespace kinora::dit {

// The conditions of every block: the noise level, the signals and the text.
struct Shared : BlockInputs<Shared> {
  at::Tensor active;           // [B, R, D]: silu of the embedded noise level and signals
  at::Tensor text, text_mask;  // [B, L, text_size], [B, L] bool; undefined: none, all
  at::Tensor text_table;  // for a packed row, instead of the mask: the sample of each token and whether it is
                          // visible
  std::array<Turns, 3> turns;  // of the tokens between COLUMN and ROW linears, one per layout of the stream
  std::array<at::Tensor, 3>
      rows;  // the row, of R, of each token of the stream, one per layout; undefined if R is 1

  std::vector<at::Tensor*> all() {
    std::vector<at::Tensor*> out{&active, &text, &text_mask, &text_table};
    for (auto& t : turns) out.insert(out.end(), {&t.cos, &t.sin, &t.rate});
    for (auto& r : rows) out.push_back(&r);
    return out;
  }
};

class Condition {
 public:
  Condition(const Declare& outside, const Config& c, const std::string& id);
  // Fills all of `to` but `turns` and `rows`. x: tokens, for their dtype and device.
  void operator()(const Ctx& ctx, const Named<at::Tensor>& in, const at::Tensor& x, const Videos& videos,
                  Shared& to) const;

 private:
  Config options_;
  std::string id_;
  Embedder time_;
  Signals signals_;
};

// The modulation of a block or of the head, the shifts, scales and gates of adaptive layer norm: parts * D
// numbers per row.
AdaLn modulation(const Declare& declare, const Config& c, int64_t parts);

// The modulation of one sub-block, as its tokens' rows: each [B, S, D], or [B, 1, D] if R is 1.
struct Rows {
  at::Tensor shift, scale, gate;
};
// parts: of AdaLn, in chunks. first: index of its shift; a scale and, if there is one, a gate follow. row:
// Shared::rows of the tokens' layout.
Rows rows_of(const std::vector<at::Tensor>& parts, size_t first, const at::Tensor& row);

// LayerNorm(x) * (1 + scale) + shift, the norm without parameters, statistics in at least float32.
at::Tensor modulate(const at::Tensor& x, const Rows& rows);
// x + gate * y
at::Tensor gated(const at::Tensor& x, const at::Tensor& y, const Rows& rows);

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
