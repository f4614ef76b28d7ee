// The chain of a job's strategies on this rank, for models that a test defines itself.
#pragma once
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/torch/context/chain.hpp"
#include "core/torch/context/parallelism.hpp"
#include "kinora/aten.hpp"
#include "kinora/context.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::test {

class StrategyChain {
 public:
  // `parallel` as in a job. Every rank must create one.
  StrategyChain(const Rank& me, const std::string& parallel, const core::ChainOptions& options = {})
      : run_(jobs(me, parallel, options)),
        context_(run_.context("dit", false)),
        strategies(context_),
        chain(options, strategies.links()),
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
  ScratchRun run_;
  core::JobContext context_;

 public:
  core::Parallelism strategies;
  core::Chain chain;
  Context<at::Tensor> ctx;
};

}  // namespace kinora::test
