// Steps of a model under strategies, and the bytes that this rank sends during them.
#pragma once
#include <map>
#include <optional>
#include <string>

#include <ATen/core/grad_mode.h>

#include "core/torch/ranks/parallelism.hpp"
#include "tests/support/equality.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::test {

// Bytes by operation, over all groups.
using Sent = std::map<std::string, int64_t>;

// In float64, with B videos of N tokens and L tokens of text, none of which need a gradient.
class Stepping {
 public:
  static constexpr int64_t B = 2, N = 4 * 4 * 4, L = 4, e = 8;

  Stepping(const Rank& me, const std::string& parallel, const std::string& model = models::dit(4),
           std::optional<core::LoraOptions> lora = {}, const core::Frames& rule = {})
      : run_(jobs(me, parallel, model)),
        context_(run_.context("dit", false)),
        parallel_(context_),
        model_(context_.open_slot("model")),
        network_(model_, context_.spec().component("model")->options,
                 {.dtype = at::kDouble, .lora = std::move(lora)}, parallel_.links()) {
    network_.chain().set_frames(rule);
  }

  // Forwards and backwards of `micro` microbatches, in the strategies' order.
  Sent passes(int64_t micro = 1) {
    return sent([&] { run(micro); });
  }
  // The same, followed by the completion of the gradients.
  Sent step(int64_t micro = 1) {
    return sent([&] {
      run(micro);
      network_.chain().reduce();
      parallel_.sum_gradients(network_.chain().parameters(), network_.chain().leaves());
    });
  }
  Sent without_gradient() {
    return sent([&] {
      const at::NoGradGuard off;
      kinora_pass pass{};
      pass.no_grad = 1;
      forward(pass);
    });
  }
  // Number of parameters that each block reads in one process; -1: outside blocks.
  std::map<int64_t, int64_t> numbers(bool frozen = false) {
    std::map<int64_t, int64_t> out;
    for (const auto& p : network_.chain().parameters())
      if (p.frozen == frozen) out[p.block] += p.local_numel();
    return out;
  }

 private:
  static std::map<std::string, std::string> jobs(const Rank& me, const std::string& parallel,
                                                 const std::string& model) {
    me.launched();
    return {{"dit", "precision = 'fp64'\nparallel = " + parallel + "\nmodel = " + model}};
  }

  at::Tensor forward(kinora_pass pass) {
    pass.struct_size = sizeof pass;
    network_.chain().begin(pass);
    return network_
        .forward({{"latent", at::ones({B, 2, 4, 8, 8}, at::kDouble)},
                  {"timestep", at::full({B}, 0.5, at::kDouble)},
                  {"text", at::ones({B, L, 12}, at::kDouble)}})
        .at(0);
  }

  void run(int64_t micro) {
    std::map<int64_t, at::Tensor> losses;
    const auto one = [&](const kinora_pass& pass) {
      try {
        losses[pass.microbatch] = forward(pass).sum();
        return true;
      } catch (const Stop&) {
        return false;
      }
    };
    parallel_.step(
        {micro, one, [&](const kinora_pass& pass) { losses.extract(pass.microbatch).mapped().backward(); }});
  }

  template <class Work>
  Sent sent(Work work) {
    const auto before = parallel_.traffic().rows();
    work();
    Sent out;
    for (const auto& [key, row] : parallel_.traffic().rows()) {
      const auto earlier = before.find(key);
      const int64_t bytes = row.sent - (earlier == before.end() ? 0 : earlier->second.sent);
      if (bytes > 0) out[key.second] += bytes;
    }
    return out;
  }

  ScratchRun run_;
  core::JobContext context_;
  core::Parallelism parallel_;
  core::Component model_;
  core::Model network_;
};

}  // namespace kinora::test
