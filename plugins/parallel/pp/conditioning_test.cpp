// Conditioning that is sent from stage to stage: results equal those of one process, and only the first stage
// computes it.
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "plugins/parallel/pp/pp_testing.hpp"
#include "tests/support/equality.hpp"

namespace kinora {
namespace {

namespace models = test::models;
using at::Tensor;
using test::all;
using test::pp;
using test::Rank;

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
