// The conditions of every block: the noise level, the signals and the text.
//
// B batch, R rows of conditioning (1, one per frame or one per token), S local tokens, L text tokens, D width. For
// a packed row of n videos B is 1, R counts all their frames or tokens, L all their tokens of text.
#pragma once
#include <vector>

#include "kinora/rope.hpp"
#include "kinora/signals.hpp"
#include "plugins/models/dit/config.hpp"
#include "plugins/models/dit/declare.hpp"

namespace kinora::dit {

// Tensors that all blocks share, made outside them. A block receives them through its inputs (a tensor captured by a block
// loses its gradient when the block is run again).
struct Shared {
  at::Tensor active;           // [B, R, D]: silu of the embedded noise level and signals
  at::Tensor text, text_mask;  // [B, L, text_size], [B, L] bool; undefined: none, all
  at::Tensor text_table;     // for a packed row, instead of the mask: the sample of each token and whether it is visible
  std::vector<Turns> turns;  // of the tokens between COLUMN and ROW linears, one per layout of the stream
  std::vector<at::Tensor> rows;  // the row, of R, of each token of the stream, one per layout; empty if R is 1

  // Which of them are present.
  struct Form {
    bool text, masked, packed;
    size_t layouts, rows;
  };
  Form form() const {
    return {text.defined(), text_mask.defined(), text_table.defined(), turns.size(), rows.size()};
  }
  at::Tensor row(size_t layout) const { return rows.empty() ? at::Tensor() : rows[layout]; }
  std::vector<at::Tensor> pack() const;
  static Shared unpack(const std::vector<at::Tensor>& in, size_t from, const Form& form);
};

// t [...] -> [..., size]: sines, then cosines, of t * 10000^(-2i / size); in at least float32.
at::Tensor sinusoid(const at::Tensor& t, int64_t size);

class Condition {
 public:
  Condition(const Declare& outside, const Config& c, const std::string& id);
  // Fills all of `to` but `turns` and `rows`. x: tokens, for their dtype and device.
  void operator()(const Ctx& ctx, const Named<at::Tensor>& in, const at::Tensor& x, const Videos& videos,
                  Shared& to) const;

 private:
  struct Layer {
    kinora_param weight, bias;
    at::Tensor operator()(const Ctx& ctx, const at::Tensor& x) const {
      return ctx.linear(x, weight, bias, 0);
    }
  };
  static Layer layer(const Declare& declare, const std::string& name, int64_t out, int64_t in, Init init);
  // text and text_mask of each video, [count, L, ...].
  void text(const Named<at::Tensor>& in, const at::Tensor& x, int64_t count, Shared& to) const;
  [[noreturn]] void refuse(const std::string& what) const;

  Config options_;
  std::string id_;
  Layer time_in_, time_out_;
  Signals signals_;
};

}  // namespace kinora::dit
