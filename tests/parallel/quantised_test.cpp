// Numbers quantised in groups that share a scale, and matrices that are split: the same as in one process if
// no split divides a group, refused otherwise.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/precision.hpp"
#include "tests/support/equality.hpp"
#include "tests/support/refusal.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Rank;

// Both operands of a product are rounded to 15 steps of their group's largest number; gradients bypass the
// rounding step.
class Grouped final : public Link<Tensor> {
 public:
  explicit Grouped(int64_t group) : Link(KINORA_LEVEL_PRECISION), group_(group) { skip_inherited<Grouped>(); }
  kinora_param parameter(const kinora_param_spec& s) override {
    require_whole_groups({s}, group_);
    return next.parameter(s);
  }
  Tensor linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq) override {
    const Tensor weight = rounded(head.value(w));
    return b ? at::linear(rounded(x), weight, head.value(b)) : at::linear(rounded(x), weight);
  }

 private:
  Tensor rounded(const Tensor& x) const {
    if (x.size(-1) % group_) return x;  // text, patches: not part of this test
    const Tensor groups = x.detach().unflatten(-1, {-1, group_}),
                 scale = groups.abs().amax(-1, true) / 7 + 1e-30;
    return x + ((groups / scale).round() * scale).flatten(-2) - x.detach();
  }
  int64_t group_;
};

test::Trial trial(int64_t group) {
  test::Trial t{.parallel = "[{ use = 'tp', size = 2 }]", .steps = 1};
  t.more = [group] { return std::make_unique<Grouped>(group); };
  return t;
}

TEST(QuantisedGroups, EqualOneProcessWhereNoCutGoesThroughOne) {
  test::on_ranks(2, [](const Rank& me) { test::equals_one_process(me, trial(8)); });  // 48 = 2 x 24
}

TEST(QuantisedGroups, AreRefusedWhereACutGoesThroughOne) {
  test::on_ranks(2, [](const Rank& me) {
    EXPECT_THAT(
        test::refusal([&] { test::equals_one_process(me, trial(16)); }),
        testing::HasSubstr("groups of 16 numbers share a scale, and a cut of 48 into 2 goes through one; "
                           "only 1 tensor rank would do"));
  });
}

TEST(QuantisedGroups, AreRefusedWithADivisorThatSuitsAllWeights) {
  const int64_t of_heads[] = {96, 32}, of_mlp[] = {32, 192}, odd[] = {144, 32};
  const auto weight = [](const char* name, uint32_t role, const int64_t* shape, int64_t shards) {
    kinora_param_spec s{};
    s.name = name, s.role = role, s.shape = shape, s.ndim = 2, s.shards = shards;
    return s;
  };
  // 96 numbers could be cut into 3, but the 4 heads could not; 192 could be cut into 4.
  std::vector<kinora_param_spec> all{weight("mlp", KINORA_ROLE_ROW, of_mlp, 4),
                                     weight("qkv", KINORA_ROLE_COLUMN, of_heads, 4)};
  EXPECT_THAT(
      test::refusal([&] { require_whole_groups(all, 16, true); }),
      testing::AllOf(testing::HasSubstr("'qkv'"), testing::HasSubstr("one; 2 tensor ranks would do")));
  require_whole_groups(all, 16);
  all.push_back(weight("odd", KINORA_ROLE_COLUMN, odd, 4));  // 2 x 72
  EXPECT_THAT(test::refusal([&] { require_whole_groups(all, 16, true); }),
              testing::HasSubstr("cut of 96 into 4 goes through one; only 1 tensor rank would do"));
  all.back().shards = 1;  // whole on every rank
  EXPECT_THAT(test::refusal([&] { require_whole_groups(all, 16, true); }),
              testing::HasSubstr("one; 2 tensor ranks would do"));
}

}  // namespace
}  // namespace kinora
