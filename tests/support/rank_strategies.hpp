// The strategies of a job on this rank, without its model: their chain, for models that a test defines
// itself, the tokens that they give this rank, and their groups. Every rank of on_ranks() must create each
// object.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "core/torch/chain/chain.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "kinora/aten.hpp"
#include "kinora/context.hpp"
#include "kinora/strategy.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::test {

// A chain of links ready for any model. `parallel` as in a job. more: further links, of a test.
class StrategyChain {
 public:
  StrategyChain(const Rank& me, const std::string& parallel, const core::ChainOptions& options = {},
                std::vector<const kinora_link*> more = {})
      : run_(jobs(me, parallel, options)),
        context_(run_.context("dit", false)),
        strategies(context_),
        chain(with_mesh(options, strategies), joined(std::move(more), strategies.links())),
        ctx(chain.head()) {}

  // One matrix per block, the model's only parameters.
  std::vector<kinora_param> matrices(const std::vector<std::vector<int64_t>>& shapes) {
    std::vector<kinora_param> out;
    for (const auto& shape : shapes) {
      const auto b = static_cast<int64_t>(out.size());
      out.push_back(ctx.parameter(
          {.name = "w" + std::to_string(b), .shape = shape, .init = Init::normal(0.1), .block = b}));
    }
    chain.ready();
    return out;
  }

 private:
  static std::map<std::string, std::string> jobs(const Rank& me, const std::string& parallel,
                                                 const core::ChainOptions& options) {
    me.launched();
    return {{"dit", std::string(options.dtype == at::kDouble ? "precision = 'fp64'\n" : "") +
                        "parallel = " + parallel}};
  }
  static core::ChainOptions with_mesh(core::ChainOptions options, const core::Parallelism& strategies) {
    options.mesh = strategies.mesh();
    return options;
  }
  static std::vector<const kinora_link*> joined(std::vector<const kinora_link*> some,
                                                const std::vector<const kinora_link*>& others) {
    some.insert(some.end(), others.begin(), others.end());
    return some;
  }
  ScratchRun run_;
  core::JobContext context_;

 public:
  core::Parallelism strategies;
  core::Chain chain;
  Context<at::Tensor> ctx;
};

// The part of a sequence of frames * rows * cols tokens that a splitting strategy gives this rank: int64
// [tokens of this rank], their indices in one process; -1: padding. `parallel` as in a job.
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

// The process groups of a launch, for tests of parts of strategies.
class RankGroups {
 public:
  // parallel: as in a job; groups are created along its axes.
  RankGroups(const Rank& me, const std::string& parallel)
      : run_(jobs(me, parallel)), context_(run_.context("dit", false)), parallel_(context_) {}
  Group<at::Tensor> group(const char* axes) const { return Group<at::Tensor>(&parallel_.group(axes)); }

 private:
  static std::map<std::string, std::string> jobs(const Rank& me, const std::string& parallel) {
    me.launched();
    return {{"dit", "precision = 'fp64'\nparallel = " + parallel + "\n"}};
  }
  ScratchRun run_;
  core::JobContext context_;
  core::Parallelism parallel_;
};

}  // namespace kinora::test
