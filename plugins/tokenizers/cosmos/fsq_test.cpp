// Finite scalar quantisation: invariants for every list of levels.
#include "plugins/tokenizers/cosmos/fsq.hpp"

#include "plugins/tokenizers/cosmos/cosmos_testing.hpp"

namespace kinora::cosmos {
namespace {

TEST(Fsq, CodesAndVectorsAreOneToOne) {
  for (const auto& levels : {std::vector<int64_t>{8, 8, 8, 5, 5, 5}, {2}, {3, 7}, {6, 2, 9}}) {
    const Fsq fsq(levels);
    const Tensor all = at::arange(fsq.size(), at::kInt);
    for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
      const Tensor vectors = fsq.vectors_of(all, dtype);
      EXPECT_TRUE(at::equal(fsq.codes(vectors), all));
      EXPECT_LE(vectors.abs().max().item<double>(), 1);
    }
  }
}

TEST(Fsq, ReachesEveryValueAndNoOther) {
  const Fsq fsq({8, 5, 2, 3});
  const Tensor z = at::linspace(-9, 9, 4001, at::kDouble).unsqueeze(1).expand({-1, 4});
  const Tensor v = fsq.vectors(z);
  const auto values = [&](int64_t i) { return (v.select(1, i) * 1024).round().to(at::kLong); };
  for (const auto& [i, levels] : std::map<int64_t, int64_t>{{0, 8}, {1, 5}, {2, 2}, {3, 3}})
    EXPECT_EQ(std::get<0>(at::unique_consecutive(values(i))).numel(), levels) << i;
}

// d vector / d z is that of the squashing alone.
TEST(Fsq, PassesTheGradientThroughTheRounding) {
  const Fsq fsq({8, 5});
  Tensor z = noise({3, 4, 2}).requires_grad_();
  fsq.vectors(z).sum().backward();
  const auto slope = [&](int64_t i, double half, double shift) {
    return (1 - (z.detach().select(-1, i) + shift).tanh().square()) * half;
  };
  const double half8 = 7 * 1.001 / 2, half5 = 4 * 1.001 / 2;
  EXPECT_LT(test::difference(z.grad().select(-1, 0), slope(0, half8, std::atanh(0.5 / half8)) / 4), 1e-12);
  EXPECT_LT(test::difference(z.grad().select(-1, 1), slope(1, half5, 0) / 2), 1e-12);
}

TEST(Fsq, RefusesWhatHasNoCode) {
  EXPECT_NE(test::refusal([] { Fsq({8, 1}); }).find("2 or more"), std::string::npos);
  EXPECT_NE(test::refusal([] { Fsq({65536, 65536}); }).find("2^31"), std::string::npos);
  EXPECT_NE(test::refusal([] { Fsq({8}).vectors_of(at::full({1}, 8, at::kInt), at::kFloat); }).find("[0, 8)"),
            std::string::npos);
}

}  // namespace
}  // namespace kinora::cosmos
