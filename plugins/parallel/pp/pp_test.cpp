// Pipeline parallelism against one process: output, loss, every gradient, and the parameters after steps,
// also where conditioning is sent from stage to stage, which only the first stage then computes.
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/torch/ranks/parallelism.hpp"
#include "kinora/aten.hpp"
#include "kinora/context.hpp"
#include "kinora/error.hpp"
#include "kinora/link.hpp"
#include "tests/support/equality.hpp"
#include "tests/support/rank_strategies.hpp"
#include "tests/support/training.hpp"

namespace kinora {
namespace {

namespace models = test::models;
using at::Tensor;
using test::Rank;
using test::ScratchRun;
using test::Trial;

// As in a job: a pipeline, followed by other strategies.
std::string pp(const std::string& schedule, const std::string& more = "", const std::string& beside = "") {
  return "[{ use = 'pp', schedule = '" + schedule + "'" + (more.empty() ? "" : ", " + more) + " }" + beside +
         "]";
}

void all(int ranks, const std::vector<Trial>& trials) {
  test::on_ranks(
      ranks,
      [&](const Rank& me) {
        for (const auto& t : trials) test::equals_one_process(me, t);
      },
      120);
}

TEST(Pipeline, EqualsOneProcessUnderEverySchedule) {
  for (const int size : {2, 4})
    all(size, {{.parallel = pp("gpipe"), .micro = 3, .frames = 1, .rows = 10, .cols = 14, .steps = 2},
               {.parallel = pp("1f1b"), .micro = 5, .rows = 2, .cols = 2},
               {.parallel = pp("1f1b"), .micro = 1, .rows = 2, .cols = 2, .text = 0, .steps = 2},
               {.parallel = pp("interleaved", "virtual = 2"),
                .model = models::kDeep,
                .micro = 4,
                .rows = 2,
                .cols = 2,
                .steps = 2}});
}

TEST(Pipeline, EqualsOneProcessForEveryModelAndRule) {
  core::Frames causal, forced;
  causal.causal = true;
  causal.window = 2;
  causal.sink = 1;
  forced.streams = 2;
  all(2, {{.parallel = pp("1f1b"),
           .model = models::kStDit,
           .micro = 2,
           .frames = 3,
           .rows = 2,
           .cols = 14,
           .steps = 2},
          {.parallel = pp("1f1b"),
           .model = models::kWan,
           .micro = 2,
           .frames = 5,
           .rows = 2,
           .cols = 6,
           .steps = 2},
          {.parallel = pp("1f1b"),
           .model = models::kCosmos,
           .rule = causal,
           .micro = 2,
           .frames = 5,
           .steps = 2},
          {.parallel = pp("1f1b", "conditioning = 'send'"),
           .model = models::kCosmos,
           .micro = 2,
           .frames = 3,
           .steps = 2},
          {.parallel = pp("1f1b"), .rule = forced, .each = 2, .micro = 2, .steps = 2}});
}

TEST(Pipeline, EqualsOneProcessWithOtherStrategies) {
  all(2, {{.parallel = pp("1f1b", "", ", 'recompute'"), .micro = 3, .rows = 2, .cols = 2},
          {.parallel = pp("1f1b", "conditioning = 'send'", ", 'recompute'"),
           .micro = 2,
           .rows = 2,
           .cols = 2,
           .steps = 2},
          {.parallel = pp("1f1b", "blocks = [3, 1]"), .micro = 2, .rows = 2, .cols = 2, .steps = 2},
          {.parallel = pp("gpipe", "balance = 'count'"),
           .rows = 2,
           .cols = 2,
           .precision = "fp32",
           .steps = 1}});
  all(4, {{.parallel = pp("1f1b", "size = 2", ", 'ddp'"), .micro = 3, .rows = 2, .cols = 2},
          {.parallel = pp("1f1b", "size = 2", ", 'fsdp'"), .micro = 3, .rows = 2, .cols = 2},
          {.parallel = pp("1f1b", "size = 2, conditioning = 'send'", ", { use = 'fsdp', stage = 1 }"),
           .micro = 2,
           .rows = 2,
           .cols = 2,
           .steps = 2},
          {.parallel = pp("interleaved", "size = 2", ", 'fsdp', 'recompute'"),
           .micro = 2,
           .rows = 2,
           .cols = 2,
           .steps = 2}});
}

TEST(Pipeline, EqualsOneProcessOnEightRanks) {
  all(8, {{.parallel = pp("1f1b"), .model = models::kDeep, .micro = 5, .rows = 2, .cols = 2, .steps = 1}});
}

// Validation and generation: one call of the model, with any batch size, and its output on every rank.
TEST(Pipeline, WithoutGradientEveryRankHasTheOutput) {
  for (const int size : {2, 4})
    test::on_ranks(size, [](const Rank& me) {
      for (const std::string& how : {pp("1f1b", "conditioning = 'send'"), pp("interleaved")}) {
        me.launched();
        const ScratchRun run(
            {{"dit", "precision = 'fp64'\nparallel = " + how + "\nmodel = " + models::kDeep}});
        core::JobContext context = run.context("dit", false);
        const core::Parallelism parallel(context);
        const auto whole = run.model("dit", "model", at::kDouble);
        core::ChainOptions options;
        options.dtype = at::kDouble;
        core::Model mine(context.open_slot("model"), run.spec("dit").component("model")->options, options,
                         parallel.links());
        core::load_values(mine.chain().parameters(), mine.chain().leaves(),
                          core::assemble(whole->chain().parameters(), whole->chain().leaves()));
        const at::NoGradGuard off;
        for (const int64_t batch : {1, 2, 1}) {
          at::manual_seed(batch);
          const core::NamedTensors in = {{"latent", at::randn({batch, 2, 2, 2, 4}, at::kDouble)},
                                         {"timestep", at::rand({batch}, at::kDouble)},
                                         {"text", at::randn({batch, 3, 12}, at::kDouble)}};
          for (auto* network : {&mine, whole.get()})
            network->chain().begin({sizeof(kinora_pass), 0, 1, 0, 0, 0, 0, 3});
          EXPECT_LT((mine.forward(in)[0] - whole->forward(in)[0]).abs().max().item<double>(), 1e-12) << how;
        }
      }
    });
}

TEST(Pipeline, StagesAreOfEqualCostOrOfEqualNumbersOfBlocks) {
  test::on_ranks(2, [](const Rank& me) {
    using Names = std::vector<std::string>;
    const auto of = [&](const char* balance) {
      test::StrategyChain model(me, pp("1f1b", std::string("balance = '") + balance + "'"));
      model.matrices({{6, 4}, {2, 4}, {2, 4}, {2, 4}});
      Names names;
      for (const auto& leaf : model.chain.leaves()) names.push_back(leaf.name);
      return names;
    };
    EXPECT_EQ(of("cost"), me.rank == 0 ? Names({"w0"}) : Names({"w1", "w2", "w3"}));
    EXPECT_EQ(of("count"), me.rank == 0 ? Names({"w0", "w1"}) : Names({"w2", "w3"}));
  });
}

TEST(Pipeline, TrainsAsOneProcessDoes) {
  test::on_ranks(2, [](const Rank& me) {
    const std::string batch = "batch = 4\naccumulate = 4\n";
    me.launched();
    const auto lines = test::trained(me, pp("1f1b"), batch);
    if (me.rank != 0) return;
    Rank::alone();
    const auto wanted = test::trained({0, 1, me.folder, 0}, pp("1f1b"), batch);
    ASSERT_EQ(lines.size(), 3U);
    for (size_t i = 0; i < 3; ++i)
      for (const char* key : {"loss", "gradient_norm"})
        EXPECT_NEAR(lines[i].at(key).get<double>() / wanted[i].at(key).get<double>(), 1, 1e-10) << key << i;
  });
}

TEST(Pipeline, RefusesWhatItCannotCut) {
  test::on_ranks(4, [](const Rank& me) {
    int number = 0;
    const auto refusal = [&](const std::string& how, int64_t layers) {
      me.launched();
      const std::string model =
          "{ use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = " +
          std::to_string(layers) + ", heads = 2, head_size = 12 }";
      const ScratchRun run({{"dit", "parallel = " + how + "\nmodel = " + model}});
      core::JobContext context = run.context("dit", false);
      const core::Parallelism parallel(context);
      me.meet(std::to_string(++number));  // before one of them ends, and its connections
      try {
        const core::Model network(context.open_slot("model"), run.spec("dit").component("model")->options, {},
                                  parallel.links());
        return std::string("nothing");
      } catch (const Error& e) {
        return std::string(e.what());
      }
    };
    const auto says = [](const std::string& text, const char* part) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    says(refusal(pp("1f1b"), 1), "has 3 blocks (embedding and head among them), which cannot be 4 stages");
    says(refusal(pp("1f1b"), 1), "at most 3 ranks can share it");
    says(refusal(pp("interleaved", "virtual = 3"), 6), "virtual = 2 would do");
    says(refusal(pp("interleaved"), 4), "schedule = \"1f1b\" would do");
    says(refusal(pp("1f1b", "blocks = [1, 1, 1]"), 2),
         "must be 4 numbers above 0, one per stage, that sum to the model's 4");
  });
}

TEST(Pipeline, RefusesSeveralStagesARankInASimpleSchedule) {
  test::on_ranks(1, [](const Rank&) {
    const ScratchRun run({{"dit", "parallel = " + pp("gpipe", "virtual = 2")}});
    core::JobContext context = run.context("dit", false);
    try {
      const core::Parallelism parallel(context);
      FAIL();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("one for 'gpipe' and '1f1b'"), std::string::npos) << e.what();
    }
  });
}

TEST(Pipeline, OfOneRankIsNoLink) {
  test::on_ranks(1, [](const Rank&) {
    const ScratchRun run({{"dit", std::string("parallel = ['pp']")}});
    core::JobContext context = run.context("dit", false);
    EXPECT_TRUE(core::Parallelism(context).links().empty());
  });
  test::on_ranks(1,
                 [](const Rank& me) { test::equals_one_process(me, {.parallel = pp("gpipe"), .micro = 2}); });
}

TEST(Pipeline, EqualsOneProcessWhenConditioningIsSent) {
  const std::string sent = "conditioning = 'send'";
  for (const int size : {2, 4})
    all(size, {{.parallel = pp("1f1b", sent), .micro = 3, .rows = 2, .cols = 2},
               {.parallel = pp("gpipe", sent),
                .model = models::kWan,
                .micro = 2,
                .frames = 3,
                .rows = 2,
                .cols = 2,
                .steps = 2},
               {.parallel = pp("interleaved", sent),
                .model = models::kDeep,
                .micro = 4,
                .rows = 2,
                .cols = 2,
                .steps = 2}});
}

TEST(Pipeline, EqualsOneProcessWhenConditioningOfEveryModelIsSent) {
  const std::string sent = "conditioning = 'send'";
  const core::LoraOptions some{.rank = 2, .targets = {"linear_1", "linear_2", "linear_q", "linear_proj"}};
  all(2,
      {{.parallel = pp("1f1b", sent), .model = models::kStDit, .micro = 2, .rows = 2, .cols = 4, .steps = 2},
       {.parallel = pp("1f1b", sent), .model = models::kCosmos, .micro = 2, .frames = 3, .steps = 2},
       {.parallel = pp("1f1b", sent), .model = models::kWan, .micro = 2, .rows = 2, .cols = 4, .text = 0},
       {.parallel = pp("1f1b", sent), .micro = 2, .rows = 2, .cols = 4, .lora = some}});
  all(4, {{.parallel = pp("1f1b", "size = 2, " + sent, ", 'fsdp'"),
           .micro = 2,
           .rows = 2,
           .cols = 2,
           .steps = 2},
          {.parallel = pp("1f1b", "size = 2, " + sent, ", 'tp'"),
           .model = models::kWan,
           .micro = 2,
           .rows = 2,
           .cols = 4,
           .steps = 2},
          {.parallel = pp("interleaved", "size = 2, " + sent, ", 'cp-ulysses'"),
           .model = models::kDeep,
           .micro = 2,
           .rows = 2,
           .cols = 4,
           .steps = 2}});
}

// Counts products with weights that are read outside blocks, below the pipeline.
class Conditioning final : public Link<Tensor> {
 public:
  explicit Conditioning(int64_t& products) : Link(KINORA_LEVEL_RECOMPUTE), products_(products) {
    skip_inherited<Conditioning>();
  }
  kinora_param parameter(const kinora_param_spec& s) override {
    const auto made = next.parameter(s);
    if (s.block < 0) outside_.insert(made);
    return made;
  }
  Tensor linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override {
    products_ += static_cast<int64_t>(outside_.count(w));
    return next.linear(x, w, b, seq);
  }

 private:
  int64_t& products_;
  std::set<kinora_param> outside_;
};

TEST(Pipeline, ComputesConditioningOnceWhenItIsSent) {
  struct Case {
    std::string how, model;
    std::vector<int64_t> times;  // how often a microbatch's conditioning is computed, by rank
  };
  const std::string dit = models::dit(4), send = "conditioning = 'send'";
  test::on_ranks(2, [&](const Rank& me) {
    for (const Case& c : {Case{pp("1f1b"), dit, {1, 1}},
                          {pp("1f1b", send), dit, {1, 0}},
                          {pp("gpipe", send), models::kWan, {1, 0}},
                          {pp("1f1b", send), models::kCosmos, {1, 0}},
                          {pp("interleaved"), models::kDeep, {2, 2}},
                          {pp("interleaved", send), models::kDeep, {1, 0}}}) {
      std::vector<int64_t> products;  // in the pipeline, and in one process
      products.reserve(2);
      test::equals_one_process(
          me,
          {.parallel = c.how, .model = c.model, .micro = 4, .rows = 2, .cols = 2, .steps = 1, .more = [&] {
             return std::make_unique<Conditioning>(products.emplace_back(0));
           }});
      ASSERT_EQ(products.size(), 2U);
      EXPECT_GT(products[1], 0);
      EXPECT_EQ(products[0], 4 * c.times[static_cast<size_t>(me.rank)] * products[1]) << c.how << c.model;
    }
  });
}

}  // namespace

}  // namespace kinora
