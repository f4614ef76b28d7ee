// The part of a sequence that a splitting strategy gives this rank.
#pragma once
#include <string>

#include <ATen/ATen.h>

#include "tests/support/strategy_chain.hpp"

namespace kinora::test {

// The tokens, int64 [tokens of this rank], by their index in one process; -1: padding. `parallel` as in a
// job.
inline at::Tensor own_tokens(const Rank& me, const std::string& parallel, const core::Frames& rule,
                             int64_t frames, int64_t rows, int64_t cols) {
  core::ChainOptions options;
  options.dtype = at::kDouble;
  options.frames = rule;
  StrategyChain model(me, parallel, options);
  model.chain.ready();
  model.chain.begin({sizeof(kinora_pass), 0, 1, 0, 0, 0, 0, 3});
  kinora_seq seq = 0;
  const at::Tensor numbers = at::arange(1, 1 + frames * rows * cols, at::kDouble).view({1, -1, 1});
  return model.ctx.sequence(numbers, frames, rows, cols, seq).flatten().to(at::kLong) - 1;
}

}  // namespace kinora::test
