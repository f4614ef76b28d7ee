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
    require_whole_groups(s, group_);
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
        testing::HasSubstr("groups of 16 numbers share a scale, and a cut of 48 into 2 goes through one; 1"));
  });
}

}  // namespace
}  // namespace kinora
