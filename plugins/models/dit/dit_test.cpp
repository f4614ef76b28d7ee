// model/dit against diffusers' CosmosTransformer3DModel, and what must hold of a model behind any chain.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/abi/model.h"
#include "kinora/link.hpp"
#include "tests/support/oracle.hpp"

namespace kinora {
namespace {

using at::Tensor;
constexpr const char* kFile = "cosmos_dit.safetensors";

struct Dit : test::OnChain<kinora_model> {
  explicit Dit(const core::json& options, at::ScalarType dtype = at::kDouble,
               std::vector<const kinora_link*> links = {})
      : OnChain("model/dit", options, dtype, std::move(links)) {}
  Tensor operator()(const core::NamedTensors& in) { return forward(in)[0]; }
};

core::NamedTensors inputs(const test::Oracle& oracle, at::ScalarType dtype) {
  core::NamedTensors in;
  for (const char* name : {"latent", "text", "timestep", "padding_mask"})
    if (oracle.has(name)) in[name] = oracle(name, dtype);
  in["text_mask"] = oracle.exact("text_mask");
  in["latent"].requires_grad_();
  in["text"].requires_grad_();
  return in;
}

// Tokens in another order, as context parallelism leaves them: only the tables say which is where.
class Shuffled final : public Link<Tensor> {
 public:
  // by_sample: a table a sample, as packed rows have.
  explicit Shuffled(bool by_sample) : Link(KINORA_LEVEL_CONTEXT), by_sample_(by_sample) {}
  Tensor sequence(const Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override {
    at::manual_seed(5);
    order_ = at::randperm(x.size(1), at::kLong);
    table_ = borrow<Tensor>(spec.table).index_select(1, order_);
    if (by_sample_) table_ = table_.expand({x.size(0), -1, -1}).contiguous();
    auto shuffled = spec;
    shuffled.table = handle(table_);
    return next.sequence(x.index_select(1, order_), shuffled, seq);
  }
  Tensor leave(const Tensor& x, kinora_seq seq) override {
    return next.leave(x, seq).index_select(1, order_.argsort());
  }

 private:
  bool by_sample_;
  Tensor order_, table_;
};

class DitModel : public ::testing::TestWithParam<std::tuple<const char*, at::ScalarType>> {
 protected:
  at::ScalarType dtype() const { return std::get<1>(GetParam()); }
  double bound() const { return test::bound_of(dtype()); }
  test::Oracle oracle{kFile, std::get<0>(GetParam())};
};

TEST_P(DitModel, EqualsDiffusersForwardAndBackward) {
  Shuffled together(false), apart(true);
  const test::Recompute recompute;
  for (const auto& links : {std::vector<const kinora_link*>{},
                            {together.get()},
                            {apart.get()},
                            {recompute.get(), together.get()}}) {
    Dit dit(oracle.options, dtype(), links);
    dit.load(oracle.under("weight."));
    const auto in = inputs(oracle, dtype());
    const Tensor output = dit(in);
    EXPECT_LT(test::difference(output, oracle.exact("output")), bound());
    output.backward(oracle("grad_output", dtype()));
    EXPECT_LT(test::difference(in.at("latent").grad(), oracle.exact("grad.latent")), bound());
    EXPECT_LT(test::difference(in.at("text").grad(), oracle.exact("grad.text")), bound());
    const auto wanted = oracle.under("grad.param.");
    size_t compared = 0;
    for (const auto& leaf : dit.chain().leaves()) {
      ASSERT_TRUE(leaf.tensor.grad().defined()) << leaf.name;
      if (!wanted.count(leaf.name)) continue;
      EXPECT_LT(test::difference(leaf.tensor.grad(), wanted.at(leaf.name)), bound()) << leaf.name;
      ++compared;
    }
    EXPECT_EQ(compared, wanted.size());
  }
}

// diffusers takes one with patch_time 1 only, which case a has.
TEST(DitTimestep, MayDifferFromFrameToFrame) {
  const test::Oracle oracle(kFile, "a");
  Shuffled together(false), apart(true);
  for (const auto dtype : {at::kDouble, at::kFloat})
    for (const auto& links : {std::vector<const kinora_link*>{}, {together.get()}, {apart.get()}}) {
      Dit dit(oracle.options, dtype, links);
      dit.load(oracle.under("weight."));
      auto in = inputs(oracle, dtype);
      in["timestep"] = oracle("timestep_per_frame", dtype);
      EXPECT_LT(test::difference(dit(in), oracle.exact("output_per_frame")), test::bound_of(dtype));
    }
}

TEST_P(DitModel, StretchesTimeByFramesASecond) {
  auto options = oracle.options;
  options["base_fps"] = 24;
  Dit dit(options, dtype());
  dit.load(oracle.under("weight."));
  auto in = inputs(oracle, dtype());
  in["fps"] = at::full({1}, 30, at::kFloat);
  EXPECT_LT(test::difference(dit(in), oracle.exact("output_30fps")), bound());
}

INSTANTIATE_TEST_SUITE_P(Cases, DitModel,
                         ::testing::Combine(::testing::Values("a", "b"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  c10::toString(std::get<1>(info.param));
                         });

const core::json kSmall = {{"in_channels", 4}, {"out_channels", 4}, {"layers", 2},    {"heads", 2},
                           {"head_size", 12},  {"text_size", 10},   {"adaln_lora", 8}};

core::NamedTensors small(int64_t B = 2) {
  at::manual_seed(3);
  const auto o = at::TensorOptions().dtype(at::kDouble);
  return {{"latent", at::randn({B, 4, 3, 4, 6}, o)},
          {"timestep", at::randn({B}, o)},
          {"text", at::randn({B, 5, 10}, o)}};
}

TEST(DitRate, MayDifferWithinABatch) {
  auto options = kSmall;
  options["base_fps"] = 24;
  Dit dit(options);
  dit.randomise();
  auto in = small(2);
  in["fps"] = at::tensor({12., 30.}, at::kDouble);
  const auto both = dit(in);
  for (int64_t i = 0; i < 2; ++i) {
    auto one = in;
    for (auto& [name, t] : one) t = t.narrow(0, i, 1);
    EXPECT_LT(test::difference(both.narrow(0, i, 1), dit(one)), 1e-12) << i;
  }
}

TEST(DitText, ThatIsZeroOrMaskedOrAbsentIsUnconditional) {
  Dit dit(kSmall);
  dit.randomise();
  auto in = small();
  const Tensor with = dit(in);
  auto masked = in, absent = in;
  in["text"] = at::zeros_like(in["text"]);
  const Tensor zero = dit(in);
  masked["text_mask"] = at::zeros({2, 5}, at::kBool);
  absent.erase("text");
  EXPECT_GT(test::difference(with, zero), 1e-3);
  EXPECT_LT(test::difference(dit(masked), zero), 1e-14);
  EXPECT_LT(test::difference(dit(absent), zero), 1e-14);
}

TEST(DitText, BehindTheMaskIsNotSeen) {
  Dit dit(kSmall);
  dit.randomise();
  auto in = small();
  in["text_mask"] = at::ones({2, 5}, at::kBool);
  in["text_mask"].narrow(1, 3, 2).fill_(false);
  const Tensor before = dit(in);
  in["text"] = in["text"].clone();
  in["text"].narrow(1, 3, 2).add_(1);
  EXPECT_EQ(test::difference(dit(in), before), 0);
}

TEST(DitTimestep, OfEqualFramesIsThatOfTheSample) {
  Dit dit(kSmall);
  dit.randomise();
  auto in = small();
  const Tensor one = dit(in);
  in["timestep"] = in["timestep"].unsqueeze(1).expand({2, 3}).contiguous();
  EXPECT_LT(test::difference(dit(in), one), 1e-14);
}

TEST(DitFresh, PredictsZeroAndLearnsFromTheFirstStep) {
  Dit dit(kSmall);
  const Tensor output = dit(small());
  EXPECT_EQ(output.abs().max().item<double>(), 0);
  (output - 1).square().sum().backward();
  for (const auto& leaf : dit.chain().leaves()) {
    if (leaf.name == "proj_out.weight") {
      EXPECT_GT(leaf.tensor.grad().abs().sum().item<double>(), 0);
    }
  }
}

TEST(DitSize, IsAPresetOfThreeOptions) {
  Dit dit({{"size", "XS"}, {"layers", 1}});
  EXPECT_EQ(dit->blocks(dit.self()), 8);
  Dit given({{"layers", 1}, {"heads", 1}});
  EXPECT_EQ(given->blocks(given.self()), 3);
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was refused";
}

TEST(DitInputs, ThatDoNotFitAreRefused) {
  using ::testing::HasSubstr;
  Dit dit(kSmall);
  const auto with = [&](const char* name, const Tensor& t) {
    auto in = small();
    in[name] = t;
    return refusal([&] { dit(in); });
  };
  const auto o = at::TensorOptions().dtype(at::kDouble);
  EXPECT_THAT(with("latent", at::zeros({2, 3, 3, 4, 6}, o)), HasSubstr("3 channels, in_channels is 4"));
  EXPECT_THAT(with("latent", at::zeros({2, 4, 3, 5, 6}, o)), HasSubstr("does not divide into patches"));
  EXPECT_THAT(with("latent", at::zeros({2, 4, 3, 4, 242}, o)),
              HasSubstr("larger than max_size, 128 x 240 x 240"));
  EXPECT_THAT(with("latent", at::zeros({2, 4, 129, 4, 6}, o)),
              HasSubstr("a latent of 129 x 4 x 6 is larger than max_size, 128 x 240 x 240"));
  EXPECT_THAT(with("timestep", at::zeros({2, 2}, o)),
              HasSubstr("timestep has shape [2, 2], needed is [2] or [2, 3]"));
  EXPECT_THAT(with("text", at::zeros({2, 5, 9}, o)),
              HasSubstr("text has shape [2, 5, 9], needed is [2, L, 10]"));
  auto none = small();
  none.erase("timestep");
  EXPECT_THAT(refusal([&] { dit(none); }), HasSubstr("input 'timestep' is missing"));
  EXPECT_THAT(refusal([] { Dit odd(core::json{{"head_size", 13}}); }), HasSubstr("head_size = 13 is odd"));
}

}  // namespace
}  // namespace kinora
