// The groups of a launch, for tests of the parts of strategies.
#pragma once
#include "core/torch/context/parallelism.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::test {

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
