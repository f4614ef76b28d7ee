#include <algorithm>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/attention/visibility.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "kinora/aten.hpp"
#include "plugins/parallel/stdit-hybrid/switches.hpp"
#include "tests/support/equality.hpp"
#include "tests/support/run_file.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Rank;
using test::Trial;

std::string stdit(const std::string& more = "heads = 4, head_size = 12") {
  return "{ use = 'stdit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, adaln_lora = 4, " +
         more + " }";
}

core::Frames rule(int64_t streams, bool causal, int64_t chunk = 1, int64_t window = 0, int64_t sink = 0) {
  core::Frames out;
  out.streams = streams;
  out.causal = causal;
  out.chunk = chunk;
  out.window = window;
  out.sink = sink;
  return out;
}

std::string layout(const std::string& which) {
  return "[{ use = 'stdit-hybrid', layout = '" + which + "' }]";
}

TEST(StDitHybrid, EqualsOneProcess) {
  for (const int size : {2, 4, 8})
    test::on_ranks(size, [](const Rank& me) {
      test::equals_one_process(me,
                               {.parallel = "['stdit-hybrid']", .model = stdit(), .frames = 8, .cols = 8});
      // 5 frames of 3 x 7 places: nothing divides
      test::equals_one_process(me, {.parallel = "['stdit-hybrid', 'recompute']",
                                    .model = stdit("heads = 3, head_size = 12, patch_space = 1"),
                                    .frames = 5,
                                    .rows = 3,
                                    .cols = 7,
                                    .steps = 1});
    });
}

TEST(StDitHybrid, EqualsOneProcessWhateverTokensSee) {
  test::on_ranks(4, [](const Rank& me) {
    const std::string grouped = stdit("heads = 4, head_size = 12, kv_heads = 2"),
                      without = stdit("heads = 1, head_size = 12, full_attention = false");
    for (const Trial& t : {
             Trial{.model = grouped, .rule = rule(1, true, 2), .frames = 7},
             Trial{.model = grouped, .rule = rule(2, true, 2, 2, 1), .frames = 10, .rows = 2},
             Trial{.model = without, .frames = 1, .rows = 6},
             Trial{.model = without, .rule = rule(2, false), .frames = 6, .rows = 2, .cols = 2, .text = 0},
         }) {
      Trial one = t;
      one.parallel = "['stdit-hybrid']";
      one.steps = 1;
      test::equals_one_process(me, one);
    }
    // Without text: the gradient of a query that sees one text token is zero up to rounding.
    test::equals_one_process(me, {.parallel = "['stdit-hybrid']",
                                  .model = stdit("heads = 4, head_size = 12, cross_attention = false"),
                                  .text = 0,
                                  .precision = "fp32",
                                  .steps = 1});
    // A model with only full attention: its keys travel around the ring in the split by frames.
    test::equals_one_process(me, {.parallel = "['stdit-hybrid']", .frames = 3, .steps = 1});
    test::equals_one_process(me, {.parallel = "[{ use = 'stdit-hybrid', size = 2 }, 'ddp', 'recompute']",
                                  .model = stdit(),
                                  .micro = 2});
  });
}

TEST(StDitHybrid, EqualsOneProcessInTheLayoutsThatItBeats) {
  test::on_ranks(2, [](const Rank& me) {
    for (const char* which : {"cp", "ulysses"})
      for (const auto& seen : {rule(1, false), rule(2, true, 2, 2, 1)})
        test::equals_one_process(
            me,
            {.parallel = layout(which), .model = stdit(), .rule = seen, .frames = 6, .cols = 10, .steps = 1});
  });
}

// Keys that travel around the ring are not cached; those of one frame or one position are on their rank.
TEST(StDitHybrid, TakesAVideoThatIsContinuedOnlyWithoutFullAttention) {
  test::on_ranks(2, [](const Rank& me) {
    core::Frames later = rule(1, true);
    later.start = 2;
    const Trial local{.parallel = "['stdit-hybrid']",
                      .model = stdit("heads = 4, head_size = 12, full_attention = false"),
                      .rule = later,
                      .steps = 1};
    test::equals_one_process(me, local);
    Trial full = local;
    full.model = stdit();
    try {
      test::equals_one_process(me, full);
      FAIL();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("use layout = 'ulysses'"), std::string::npos) << e.what();
    }
  });
}

// The tokens of a rank in either split are split again, and no part divides evenly.
TEST(StDitHybrid, EqualsOneProcessAboveTensorParallelism) {
  test::on_ranks(4, [](const Rank& me) {
    for (const char* which : {"hybrid", "cp", "ulysses"})
      for (const char* more : {"", ", 'recompute'"})
        test::equals_one_process(
            me, {.parallel = "[{ use = 'stdit-hybrid', size = 2, layout = '" + std::string(which) +
                             "' }, { use = 'tp', size = 2 }" + more + "]",
                 .model = stdit("heads = 4, head_size = 12, kv_heads = 2, patch_space = 1"),
                 .rule = rule(1, true, 2),
                 .frames = 5,
                 .rows = 3,
                 .cols = 7,
                 .steps = 1});
  });
}

// With every other strategy that fits into the mesh.
TEST(StDitHybrid, EqualsOneProcessInThrees) {
  test::on_ranks(
      8,
      [](const Rank& me) {
        for (const char* third :
             {"{ use = 'fsdp', size = 2 }", "'ddp'", "{ use = 'pp', size = 2, schedule = '1f1b' }"})
          test::equals_one_process(
              me, {.parallel = "[{ use = 'stdit-hybrid', size = 2 }, { use = 'tp', size = 2 }, " +
                               std::string(third) + "]",
                   .model = stdit(),
                   .micro = 2,
                   .frames = 3,
                   .steps = 1});
      },
      120);
}

// Traffic of a group: number of all-to-alls, and the bytes that a rank sends.
struct Sent {
  int64_t exchanges = 0;
  double bytes = 0;
} sent;
decltype(kinora_group::start) start_of_group;
int64_t size_of_group;

int32_t counted(void* self, const kinora_transfer* t, void** work) {
  const auto P = static_cast<double>(size_of_group),
             bytes = static_cast<double>(borrow<Tensor>(t->in).nbytes());
  sent.exchanges += t->op == KINORA_OP_ALL_TO_ALL;
  sent.bytes += t->op == KINORA_OP_ALL_GATHER   ? (P - 1) * bytes
                : t->op == KINORA_OP_ALL_TO_ALL ? (P - 1) / P * bytes
                : t->op == KINORA_OP_SEND       ? bytes
                                                : 0;
  return start_of_group(self, t, work);
}

Sent step_of(const Rank& me, const std::string& which, const std::string& model, bool backward) {
  setenv("RANK", std::to_string(me.rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(me.size).c_str(), 1);
  static int made = 0;
  setenv("KINORA_RENDEZVOUS", (me.file() + std::to_string(made++)).c_str(), 1);
  const test::ScratchRun run(
      {{"dit", "precision = 'fp64'\nparallel = " + layout(which) + "\nmodel = " + model}});
  core::JobContext context = run.context("dit", false);
  const core::Parallelism parallel(context);
  auto& group = const_cast<kinora_group&>(parallel.group("cp"));
  start_of_group = std::exchange(group.start, counted);
  size_of_group = group.size;
  core::ChainOptions options;
  options.dtype = at::kDouble;
  core::Model network(context.open_slot("model"), context.spec().component("model")->options, options,
                      parallel.links());
  network.chain().begin(network.chain().pass());
  const auto o = at::TensorOptions().dtype(at::kDouble);
  sent = {};
  const Tensor out =
      network.forward({{"latent", at::ones({2, 2, 8, 4, 8}, o)}, {"timestep", at::ones({2}, o)}}).at(0);
  if (backward) {
    sent = {};
    out.sum().backward();
  }
  return sent;
}

TEST(StDitHybrid, TakesTwoAllToAllsALayerAndTheBytesOfItsFormula) {
  test::on_ranks(4, [](const Rank& me) {
    const double P = 4, N = 2, B = 2, L = 8 * 2 * 4 / P, D = 48, C = 2 * 4, e = 8;
    for (const bool full : {true, false})
      for (const bool backward : {false, true}) {
        const std::string model =
            stdit(std::string("heads = 4, head_size = 12") + (full ? "" : ", full_attention = false"));
        const double A = full ? 3 : 2, out = backward ? 0 : (P - 1) * B * L * C * e,
                     round = ((P - 1) + (backward ? P : 0)) * 2 * B * L * D * e;
        const Sent hybrid = step_of(me, "hybrid", model, backward), cp = step_of(me, "cp", model, backward),
                   ulysses = step_of(me, "ulysses", model, backward);
        EXPECT_EQ(hybrid.exchanges, 2 * N);
        EXPECT_EQ(cp.exchanges, 0);
        EXPECT_EQ(ulysses.exchanges, 2 * A * N);
        EXPECT_DOUBLE_EQ(hybrid.bytes, (P - 1) / P * N * 2 * B * L * D * e + N * (A - 2) * round + out);
        EXPECT_DOUBLE_EQ(cp.bytes, N * A * round + out);
        EXPECT_DOUBLE_EQ(ulysses.bytes, (P - 1) / P * N * A * 4 * B * L * D * e + out);
      }
  });
}

// Every token is on one rank in either split, with whole frames or whole positions, and the transfer loses
// none.
TEST(StDitHybrid, SwitchesAreWaysThereAndBackForVideosAndPackedRowsOfAnySize) {
  const std::vector<std::vector<core::VideoSize>> rows = {
      {{8, 4, 4}}, {{5, 3, 7}}, {{1, 1, 1}}, {{1, 5, 3}}, {{7, 1, 1}}, {{3, 2, 5}, {4, 3, 3}, {1, 7, 2}}};
  for (const auto& videos : rows)
    for (const int64_t P : {2, 3, 4})
      for (const int64_t T : {1, 2}) {
        const Tensor table = core::token_table(core::Frames(), videos);
        std::vector<Tensor> cells(static_cast<size_t>(P * T));
        std::vector<Switches> all;
        for (int64_t r = 0; r < P * T; ++r) all.push_back(make_switches(table, r / T, P, r % T, T));
        const Tensor &frames = all[0].by_frames, &places = all[0].by_places;
        const int64_t tokens = table.size(1) + all[0].padding, each = tokens / (P * T);
        ASSERT_TRUE(std::get<0>(frames.sort()).equal(at::arange(tokens, at::kLong)));
        ASSERT_TRUE(std::get<0>(places.sort()).equal(at::arange(tokens, at::kLong)));
        for (int64_t t = 0; t < T; ++t)
          for (int64_t to = 0; to < P; ++to) {
            std::vector<Tensor> came;
            for (int64_t from = 0; from < P; ++from)
              came.push_back(frames.narrow(0, (from * T + t) * each, each)
                                 .index_select(0, all[static_cast<size_t>(from * T + t)].leave_frames)
                                 .chunk(P)[static_cast<size_t>(to)]);
            const auto& s = all[static_cast<size_t>(to * T + t)];
            EXPECT_TRUE(at::cat(came)
                            .index_select(0, s.enter_places)
                            .equal(places.narrow(0, (to * T + t) * each, each)));
            EXPECT_TRUE(s.enter_places.index_select(0, s.leave_places).equal(at::arange(each, at::kLong)));
            EXPECT_TRUE(s.leave_frames.index_select(0, s.enter_frames).equal(at::arange(each, at::kLong)));
          }
        const auto together = [&](const Tensor& split, std::vector<int64_t> columns) {
          std::map<std::vector<int64_t>, int64_t> rank_of;
          for (int64_t i = 0; i < tokens; ++i) {
            const int64_t token = split[i].item<int64_t>();
            if (token >= table.size(1)) continue;
            std::vector<int64_t> key;
            for (const auto c : columns) key.push_back(table[0][token][c].item<int64_t>());
            EXPECT_EQ(rank_of.emplace(key, i / (each * T)).first->second, i / (each * T));
          }
        };
        together(frames, {KINORA_TOKEN_SAMPLE, KINORA_TOKEN_FRAME});
        together(places, {KINORA_TOKEN_SAMPLE, KINORA_TOKEN_ROW, KINORA_TOKEN_COL});
      }
}

}  // namespace
}  // namespace kinora
