// Strategies on several ranks against one process: the comparison, and trials of strategies that split
// sequences or heads with every model, rule and odd size.
#pragma once
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "plugins/jobs/equality/equality.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::test {

using core::Trial;

// Call on every rank of on_ranks(). bound: for the worst difference relative to the largest number of its
// kind; 0: 1e-10 in float64, else 1e-5.
inline void equals_one_process(const Rank& me, const Trial& trial, double bound = 0) {
  me.launched();
  if (bound == 0) bound = trial.is_exact() ? 1e-10 : 1e-5;
  core::Equality(runtime(), trial).run([&](const core::Compared& c) {
    EXPECT_LE(c.off, bound) << c.what() << ", step " << c.step << ", rank " << me.rank << " of " << me.size
                            << ", " << trial.parallel;
  });
}

// Models of a job, as TOML.
namespace models {
// kv: heads of keys; 0: as many as heads of queries.
inline std::string dit(int heads, int kv = 0) {
  return "{ use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, head_size = 12, "
         "adaln_lora = 4, heads = " +
         std::to_string(heads) + ", kv_heads = " + std::to_string(kv) + " }";
}
// Enough blocks for 8 stages.
constexpr const char* kDeep =
    "{ use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 6, heads = 4, head_size = "
    "12, adaln_lora = 4 }";
constexpr const char* kStDit =
    "{ use = 'stdit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 4, head_size = "
    "12, adaln_lora = 4 }";
constexpr const char* kWan =
    "{ use = 'wan', in_channels = 2, out_channels = 2, text_dim = 12, num_layers = 2, num_attention_heads = "
    "4, attention_head_dim = 12, freq_dim = 8, ffn_dim = 24 }";
constexpr const char* kCosmos =
    "{ use = 'cosmos', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 4, head_size = "
    "12, adaln_lora = 4, learnable_pos_embed = true }";
}  // namespace models

// One trial of each kind that a strategy must pass. `strategy` as in a job, without brackets. 5 x 7 tokens
// per frame; neither they nor 5, 3 or 1 frames are divisible by a number of ranks.
inline std::vector<Trial> odd_trials(const std::string& strategy) {
  const auto alone = "[" + strategy + "]", again = "[" + strategy + ", 'recompute']";
  const auto base = [](const std::string& parallel, const std::string& model) {
    Trial t;
    t.parallel = parallel;
    t.model = model;
    t.frames = 3;
    t.rows = 10;
    t.cols = 14;
    t.steps = 1;
    return t;
  };
  std::vector<Trial> out;
  const auto add = [&](const std::string& parallel, const std::string& model) -> Trial& {
    return out.emplace_back(base(parallel, model));
  };
  add(alone, models::dit(4)).steps = 3;
  add(alone, models::dit(4)).frames = 1;
  add(alone, models::dit(4)).each = 2;
  Trial& window = add(again, models::dit(4));
  window.frames = 7;
  window.rule.causal = true;
  window.rule.chunk = 2;
  window.rule.window = 2;
  window.rule.sink = 1;
  add(alone, models::dit(4)).rule.causal = true;
  Trial& forcing = add(again, models::dit(4));
  forcing.frames = 6;
  forcing.rule.streams = 2;
  add(alone, models::kStDit);
  Trial& spatial = add(again, models::kStDit);
  spatial.frames = 5;
  spatial.rule.causal = true;
  add(alone, models::kWan);
  add(again, models::kCosmos);
  Trial& single = add(alone, models::dit(4));
  single.precision = "fp32";
  single.each = 2;  // the first sample sees one token of text, so its gradient is only rounding
  add(alone, models::dit(4)).packed = {{3, 10, 14}, {1, 6, 8}, {2, 10, 4}};
  Trial& packed = add(again, models::dit(4));
  packed.packed = {{1, 6, 8}, {4, 10, 4}};
  packed.rule.causal = true;
  add(alone, models::dit(4)).lora =
      core::LoraOptions{.rank = 3,
                        .alpha = 6,
                        .targets = {"linear_qkv", "linear_proj", "linear_kv", "linear_fc1", "linear_fc2"}};
  add("[" + strategy + ", { use = 'recompute', mode = 'selective' }]", models::dit(4)).rule.causal = true;
  return out;
}

}  // namespace kinora::test
