// The conditions of every block: the noise level, the signals and the text.
//
// B batch, R rows of conditioning (1, one per frame or one per token), S local tokens, L text tokens, D
// width. For a packed row of n videos B is 1, R counts all their frames or tokens, L all their tokens of
// text.
#pragma once
#include <array>
#include <vector>

#include "kinora/block_inputs.hpp"
#include "kinora/rope.hpp"
#include "kinora/signals.hpp"
#include "plugins/models/dit/config.hpp"

namespace kinora::dit {

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
    for (auto& t : turns) out.insert(out.end(), {&t.cos, &t.sin});
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

}  // namespace kinora::dit
