// Combined strategies against one process: every useful pair on 4 ranks, some triples on 8, and the
// odd sizes, rules and inputs that each strategy is tested with alone, for pairs that interact in them.
#include <gtest/gtest.h>

#include "tests/support/equality.hpp"

namespace kinora {
namespace {

using test::Rank;
using test::Trial;

// Two layers of stdit, for strategies that reshard.
constexpr const char* kSpatialTemporal =
    "{ use = 'stdit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 4, head_size = "
    "12, "
    "adaln_lora = 4 }";

std::string two(const std::string& use, const std::string& more = "") {
  return "{ use = '" + use + "', size = 2" + (more.empty() ? "" : ", " + more) + " }";
}

// The links of a case, some with their requirements on the model and the rule.
struct Part {
  std::string text;
  bool spatial_temporal = false, streams = false, pipeline = false;
};
const Part kTp{two("tp")}, kUlysses{two("cp-ulysses")}, kRing{two("cp-ring")}, kFsdp{two("fsdp")},
    kHalf{two("fsdp", "stage = 2")}, kDdp{"'ddp'"}, kRecompute{"'recompute'"},
    kHybrid{two("stdit-hybrid"), true, false, false}, kBalanced{two("balanced-sp"), false, true, false},
    kOneForward{two("pp", "schedule = '1f1b'"), false, false, true},
    kGpipe{two("pp", "schedule = 'gpipe'"), false, false, true},
    kInterleaved{two("pp", "schedule = 'interleaved', virtual = 2"), false, false, true},
    kGrid{"{ use = 'cp-2d', size = 4, ulysses = 2 }"};

Trial together(const std::vector<Part>& parts) {
  Trial t;
  t.steps = 2;
  for (const auto& p : parts) {
    t.parallel += (t.parallel.empty() ? "[" : ", ") + p.text;
    if (p.spatial_temporal) t.model = kSpatialTemporal;
    if (p.streams) t.rule.streams = 2;
    if (p.pipeline) t.micro = 4;
  }
  t.parallel += "]";
  return t;
}

void all(int ranks, const std::vector<std::vector<Part>>& cases) {
  test::on_ranks(
      ranks,
      [&](const Rank& me) {
        for (const auto& parts : cases) test::equals_one_process(me, together(parts));
      },
      300);
}

TEST(Pairs, TensorParallelismWithEachOther) {
  all(4, {{kTp, kUlysses},
          {kTp, kRing},
          {kTp, kBalanced},
          {kTp, kHybrid},
          {kTp, kOneForward},
          {kTp, kFsdp},
          {kTp, kDdp}});
}

TEST(Pairs, ShardedParametersWithEachOther) {
  all(4, {{kFsdp, kUlysses},
          {kFsdp, kRing},
          {kFsdp, kBalanced},
          {kFsdp, kHybrid},
          {kFsdp, kOneForward},
          {kFsdp, kDdp},
          {kHalf, kUlysses},
          {kHalf, kOneForward}});
}

TEST(Pairs, PipelinesWithEachOther) {
  all(4, {{kOneForward, kUlysses},
          {kGpipe, kRing},
          {kOneForward, kBalanced},
          {kOneForward, kHybrid},
          {kGpipe, kDdp},
          {kInterleaved, kUlysses}});
}

// AdamW as it is used: its eps of 1e-8 lets the rounding of the smallest gradients through.
TEST(Pairs, StepAsOneProcessWithAdamWsUsualEps) {
  test::on_ranks(4, [](const Rank& me) {
    for (const auto& parts : {std::vector<Part>{kTp, kFsdp}, {kDdp, kUlysses}}) {
      Trial t = together(parts);
      t.optimizer = "{ use = 'adamw', beta2 = 0.999, eps = 1e-8 }";
      test::equals_one_process(me, t, 1e-6);
    }
  });
}

TEST(Pairs, DataParallelismWithContextParallelism) {
  all(4, {{kDdp, kUlysses}, {kDdp, kRing}, {kDdp, kBalanced}, {kDdp, kHybrid}});
}

TEST(Pairs, WithRecompute) {
  all(4, {{kTp, kUlysses, kRecompute},
          {kFsdp, kRing, kRecompute},
          {kOneForward, kFsdp, kRecompute},
          {kFsdp, kHybrid, kRecompute},
          {kTp, kBalanced, kRecompute}});
}

// Sizes that nothing divides: lengths, one frame, causal rules with and without windows, teacher forcing,
// packed rows, every model, adapters, float32 and recompute; grouped heads of keys. Microbatches for a
// pipeline. Each strategy alone passes all of them in its own test; the pairs take turns, so that each kind is
// tried with half of them.
void odd(int ranks, const std::vector<Part>& parts, int turn) {
  const Trial even = together(parts);
  auto all = test::odd_trials(even.parallel.substr(1, even.parallel.size() - 2));
  Trial& grouped = all.emplace_back(all[0]);
  grouped.model = test::models::dit(4, 2);
  grouped.rule.causal = true;
  std::vector<Trial> trials;
  for (size_t i = static_cast<size_t>(turn); i < all.size(); i += 2) trials.push_back(std::move(all[i]));
  test::on_ranks(
      ranks,
      [&](const Rank& me) {
        for (Trial& t : trials) {
          t.steps = 1;
          t.micro = even.micro > 1 ? 3 : 1;
          test::equals_one_process(me, t);
        }
      },
      300);
}

TEST(OddPairs, OfTensorParallelism) {
  odd(4, {kTp, kUlysses}, 1);
  odd(4, {kTp, kFsdp}, 0);
}

TEST(OddPairs, OfTensorParallelismUnderARing) { odd(4, {kTp, kRing}, 1); }

TEST(OddPairs, OfShardedParameters) {
  odd(4, {kFsdp, kUlysses}, 0);
  odd(4, {kFsdp, kBalanced}, 1);
  odd(4, {kFsdp, kOneForward}, 0);
}

TEST(OddPairs, OfContextParallelism) {
  odd(4, {kOneForward, kRing}, 1);
  odd(4, {kOneForward, kBalanced}, 0);
  odd(4, {kDdp, kRing}, 1);
}

TEST(OddPairs, OfSpatialTemporalModels) {
  odd(4, {kHybrid, kTp}, 0);
  odd(4, {kHybrid, kFsdp}, 1);
  odd(4, {kHybrid, kOneForward}, 0);
}

TEST(OddPairs, OfTheGridOnEightRanks) {
  odd(8, {kGrid, kOneForward}, 1);
  odd(8, {kGrid, kDdp}, 0);
}

TEST(Threes, OnEightRanks) {
  all(8, {{kTp, kUlysses, kOneForward},
          {kFsdp, kTp, kRing},
          {kOneForward, kFsdp, kBalanced},
          {kTp, kGrid},
          {kFsdp, kGrid},
          {kFsdp, kDdp, kTp}});
}

}  // namespace
}  // namespace kinora
