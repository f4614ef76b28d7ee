// Bytes that a rank sends in whole steps equal the formulas in the headers of the strategies that split
// samples, parameters and blocks.
#include <gtest/gtest.h>

#include "tests/support/stepping.hpp"

namespace kinora {
namespace {

using test::Rank;
using test::Sent;
using test::Stepping;

constexpr int64_t B = Stepping::B, N = Stepping::N, L = Stepping::L, D = 4 * 12, C = 8, e = Stepping::e;

int64_t of(const Sent& s, const char* operation) {
  const auto found = s.find(operation);
  return found == s.end() ? 0 : found->second;
}

// Numbers of each block by its index, padded to a multiple of P: in blocks, and outside of them.
struct Units {
  int64_t blocks = 0, outside = 0;
  Units(const std::map<int64_t, int64_t>& numbers, int64_t P) {
    for (const auto& [block, n] : numbers) (block < 0 ? outside : blocks) += (n + P - 1) / P * P;
  }
  int64_t all() const { return blocks + outside; }
};

// The gradients of all parameters, once per step.
TEST(StepTraffic, OfDataParallelismIsItsFormula) {
  for (const int64_t P : {2, 3, 4})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      Stepping model(me, "['ddp']");
      const Sent s = model.step(3);
      EXPECT_EQ(of(s, "sum"), 2 * (P - 1) * Units(model.numbers(), 1).all() * e / P);
      EXPECT_EQ(s.size(), 1U);
      EXPECT_TRUE(model.without_gradient().empty());
    });
}

TEST(StepTraffic, OfShardedDataParallelismIsItsFormula) {
  constexpr int64_t m = 3;
  struct Case {
    const char* options;
    int64_t gathers, scatters;  // per step and block
    int64_t outside;            // scatters per step of the unit outside blocks, which is gathered once
    int64_t w = e, g = e;       // bytes per number in transfer
    const char* beside = "";
  };
  const Case cases[] = {{"stage = 3", 2 * m, m, m},
                        {"stage = 3, prefetch = 0", 2 * m, m, m},
                        {"stage = 3", 2 * m, m, m, e, e, ", 'recompute'"},
                        {"stage = 3, gather_dtype = 'bfloat16', reduce_dtype = 'float32'", 2 * m, m, m, 2, 4},
                        {"stage = 2", 1, m, m},
                        {"stage = 1", 1, 1, 1},
                        {"stage = 1, gather_dtype = 'bfloat16', reduce_dtype = 'float32'", 1, 1, 1, 2, 4}};
  for (const int64_t P : {2, 3, 4})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      for (const auto& c : cases) {
        Stepping model(me, std::string("[{ use = 'fsdp', ") + c.options + " }" + c.beside + "]");
        const Units U(model.numbers(), P);
        const auto part = [&](int64_t bytes) { return bytes / P * (P - 1); };
        const Sent s = model.step(m);
        EXPECT_EQ(of(s, "gather"), part((c.gathers * U.blocks + U.outside) * c.w)) << c.options << c.beside;
        EXPECT_EQ(of(s, "scatter-sum"), part((c.scatters * U.blocks + c.outside * U.outside) * c.g))
            << c.options << c.beside;
        EXPECT_EQ(s.size(), 2U) << c.options;
        const Sent seen = model.without_gradient();
        EXPECT_EQ(of(seen, "gather"), part(U.all() * c.w)) << c.options << ", without gradient";
        EXPECT_EQ(seen.size(), 1U) << c.options;
      }
    });
}

// Each rank's part of a unit is one row of codes and scales.
TEST(StepTraffic, OfShardsInFewerBytesIsItsFormula) {
  constexpr int64_t P = 2, m = 2;
  const auto up = [](int64_t n, int64_t by) { return (n + by - 1) / by; };
  test::on_ranks(P, [&](const Rank& me) {
    for (const bool fp8 : {true, false}) {
      Stepping model(me, std::string("[{ use = 'fsdp', gather_dtype = '") + (fp8 ? "fp8" : "nvfp4") + "' }]");
      int64_t blocks = 0, outside = 0;
      for (const auto& [block, numbers] : model.numbers()) {
        const int64_t n = up(numbers, P);
        (block < 0 ? outside : blocks) += fp8 ? n + 4 * up(n, 128) : up(n, 2) + up(n, 16) + 4;
      }
      EXPECT_EQ(of(model.step(m), "gather"), (P - 1) * (2 * m * blocks + outside)) << fp8;
      EXPECT_EQ(of(model.without_gradient(), "gather"), (P - 1) * (blocks + outside)) << fp8;
    }
  });
}

// A step ends with a sum of each shard over the ranks with copies of it, in the parameters' dtype.
TEST(StepTraffic, OfShardsWithCopiesIsItsFormula) {
  constexpr int64_t P = 2, R = 2, m = 2;
  test::on_ranks(P * R, [&](const Rank& me) {
    for (const int64_t stage : {1, 2, 3}) {
      Stepping model(me, "[{ use = 'fsdp', size = 2, reduce_dtype = 'float32', stage = " +
                             std::to_string(stage) + " }, 'ddp']");
      const Units U(model.numbers(), P);
      const Sent s = model.step(m);
      EXPECT_EQ(of(s, "sum"), 2 * (R - 1) * (U.all() / P) * e / R) << stage;
      EXPECT_EQ(of(s, "gather"), ((stage == 3 ? 2 * m : 1) * U.blocks + U.outside) / P * (P - 1) * e)
          << stage;
      EXPECT_EQ(of(s, "scatter-sum"), (stage == 1 ? 1 : m) * U.all() / P * (P - 1) * 4) << stage;
      EXPECT_EQ(s.size(), 3U) << stage;
    }
  });
}

// Frozen parameters form separate vectors: gathered, and never scattered.
TEST(StepTraffic, OfShardsOfAFrozenModelIsItsFormula) {
  const core::LoraOptions lora{.rank = 3, .targets = {"x_embedder", "linear_q", "final_layer_linear"}};
  for (const int64_t P : {2, 3})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      Stepping model(me, "['fsdp']", test::models::dit(4), lora);
      const Units trained(model.numbers(), P), frozen(model.numbers(true), P);
      const Sent s = model.step(2);
      EXPECT_EQ(of(s, "gather"),
                (4 * (trained.blocks + frozen.blocks) + trained.outside + frozen.outside) / P * (P - 1) * e);
      EXPECT_EQ(of(s, "scatter-sum"), 2 * trained.all() / P * (P - 1) * e);
      EXPECT_GT(frozen.outside, 0);
    });
}

struct Pipeline {
  std::string options, model;
  int64_t stages_a_rank = 1;
  int64_t shared = 0, last = shared;  // bytes sent in addition to the flow, and over the last boundary
};

// B timesteps with one row each; for Wan six further rows, and its projected text.
constexpr int64_t kFlow = B * N * D * e, kRow = B * D * e, kOfWan = 7 * kRow + L * kRow, kShapes = 648;

std::vector<Pipeline> pipelines(int64_t P) {
  const std::string dit = test::models::dit(4), deep = test::models::kDeep, wan = test::models::kWan,
                    send = ", conditioning = 'send'";
  return {{"schedule = 'gpipe'", dit},
          {"schedule = '1f1b'", dit},
          {"schedule = 'interleaved'", deep, 2},
          {"schedule = 'gpipe'" + send, dit, 1, kRow},
          {"schedule = '1f1b'" + send, dit, 1, kRow},
          {"schedule = 'interleaved'" + send, deep, 2, kRow},
          // On 4 ranks the last stage is the head, which reads only the timestep.
          {(P == 2 ? "blocks = [2, 2]" : "blocks = [1, 1, 1, 1]") + send, wan, 1, kOfWan,
           P == 2 ? kOfWan : kRow}};
}

// The sum of `bytes(boundary)` over the boundaries across which this rank sends: to the next stage, or back.
template <class Bytes>
int64_t over_boundaries(const Rank& me, const Pipeline& p, bool back, Bytes bytes) {
  int64_t out = 0;
  for (int64_t boundary = 0; boundary + 1 < me.size * p.stages_a_rank; ++boundary)
    if ((boundary + back) % me.size == me.rank) out += bytes(boundary);
  return out;
}

TEST(StepTraffic, OfAPipelineIsItsFormula) {
  constexpr int64_t m = 4;
  for (const int64_t P : {2, 4})
    test::on_ranks(static_cast<int>(P), [&](const Rank& me) {
      for (const auto& p : pipelines(P)) {
        Stepping model(me, "[{ use = 'pp', " + p.options + " }]", p.model);
        const auto each = [&](int64_t boundary) {
          return kFlow + (boundary + 2 == P * p.stages_a_rank ? p.last : p.shared);
        };
        const int64_t messages = over_boundaries(me, p, false, each) + over_boundaries(me, p, true, each),
                      shapes = over_boundaries(me, p, false, [](int64_t) { return kShapes; });
        EXPECT_EQ(of(model.step(m), "send"), m * messages + shapes) << p.options << ", first step";
        const Sent s = model.step(m);
        EXPECT_EQ(of(s, "send"), m * messages) << p.options << " of " << p.model;
        EXPECT_EQ(of(s, "sum"), 2 * (P - 1) * model.numbers().at(-1) * e / P) << "parameters of every stage";
        EXPECT_EQ(of(s, "broadcast"), 0);

        const Sent seen = model.without_gradient();
        EXPECT_EQ(of(seen, "send"), over_boundaries(me, p, false, [](int64_t) { return kFlow; }));
        EXPECT_EQ(of(seen, "broadcast"), me.rank + 1 < P ? 0 : (P - 1) * (B * N * C * e + kShapes));
        EXPECT_EQ(of(model.without_gradient(), "broadcast"), me.rank + 1 < P ? 0 : (P - 1) * B * N * C * e);
      }
    });
}

}  // namespace
}  // namespace kinora
