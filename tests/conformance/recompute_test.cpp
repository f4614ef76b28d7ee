// Every model under parallel/recompute: a block that reads a tensor that did not come through its inputs is
// exact elsewhere and silently wrong here, so this test finds it.
#include <algorithm>
#include <cctype>
#include <sstream>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/ranks/mesh.hpp"
#include "kinora/abi/parallel.h"
#include "kinora/aten.hpp"
#include "kinora/model.hpp"
#include "tests/conformance/models.hpp"
#include "tests/support/plugins.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Outcome;
using test::SmallModel;

// The model without links, and with recompute.
struct Pair {
  Outcome plain, again;
};
Pair both_ways(const core::Component& model, const SmallModel& small, bool needs_gradient,
               const char* mode = "block") {
  core::MeshOwner mesh;
  test::Instance<kinora_parallel> recompute("parallel/recompute", core::json{{"mode", mode}}, mesh.abi());
  const kinora_link* link = nullptr;
  check(recompute->link(recompute.self(), &link));
  return {test::run_model(model, small, {}, needs_gradient),
          test::run_model(model, small, {link}, needs_gradient)};
}

TEST(Conformance, EveryModelOfTheRegistryIsTested) {
  for (const auto& id : test::plugins().ids("model")) {
    const auto& table = test::small_models();
    EXPECT_TRUE(std::any_of(table.begin(), table.end(), [&](const SmallModel& s) { return s.id == id; }))
        << id << ": add a small form in tests/conformance/models.cpp";
  }
}

class RecomputeConformance : public testing::TestWithParam<size_t> {};

TEST_P(RecomputeConformance, OutputAndEveryGradientEqualThePlainRun) {
  const SmallModel& small = test::small_models()[GetParam()];
  const auto model = core::or_throw(test::plugins().open(small.id));
  for (const bool needs_gradient : {true, false}) {
    const auto [plain, again] = both_ways(model, small, needs_gradient);
    const auto worst = test::difference(again, plain);
    EXPECT_LE(worst.value, 1e-12)
        << small.id << ": " << worst.where
        << "; does a block read a tensor that is not among its inputs, or a parameter of another block?";
    std::ostringstream value;
    value << worst.value;
    RecordProperty(needs_gradient ? "worst" : "worst_without_input_gradients", value.str());
    EXPECT_GT(plain.size(), 5u);
  }
}

TEST_P(RecomputeConformance, SelectivelyToo) {
  const SmallModel& small = test::small_models()[GetParam()];
  const auto model = core::or_throw(test::plugins().open(small.id));
  const auto [plain, again] = both_ways(model, small, true, "selective");
  const auto worst = test::difference(again, plain);
  EXPECT_LE(worst.value, 1e-12) << small.id << ": " << worst.where;
}

std::string name_of(const testing::TestParamInfo<size_t>& info) {
  std::string name = test::small_models()[info.param].id.substr(6);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name + "_" + std::to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(Models, RecomputeConformance, testing::Range<size_t>(0, test::small_models().size()),
                         name_of);

// A model of one block, correct or with the mistake.
template <bool captures>
class Careless final : public Model<Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("careless").help("for this test");
    d.input("latent", "[B, L, D]", "float")
        .input("text", "[B, D]", "float")
        .output("output", "[B, L, D]", "float");
  }
  Careless(const Options&, const Context<Tensor>& ctx) {
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      Parameter p;
      p.name = name;
      p.shape = {8, 8};
      p.init = Init::normal(0.3);
      p.block = 0;
      weights_.push_back(ctx.parameter(p));
    }
  }
  std::vector<Tensor> forward(const Context<Tensor>& ctx, const Named<Tensor>& in) override {
    const Tensor text = in["text"].tanh();
    return ctx.block(0, {in["latent"]}, {text}, 1, [this, ctx, text](const std::vector<Tensor>& t) {
      Tensor x = t[0] + (captures ? text : t[1]).unsqueeze(1);
      for (const auto w : weights_) x = x + at::silu(ctx.linear(x, w, 0, 0));
      return std::vector<Tensor>{x};
    });
  }
  int64_t blocks() const override { return 1; }

 private:
  std::vector<kinora_param> weights_;
};

template <class M>
test::Difference careless() {
  test::plugins();
  const std::string text = "[plugin]\nname = \"t\"\nversion = \"0\"\nabi = \"1.0\"\ntier = \"stable\"\n" +
                           described<M>().toml("model", KINORA_INTERFACE_MODEL);
  const auto plugin = core::or_throw(core::parse_manifest(text, "plugin.toml"));
  const core::Component model{&plugin.components[0], &plugin, M::template api<M>()};
  const auto [plain, again] = both_ways(model, {"model/careless", core::json::object()}, true);
  return test::difference(again, plain);
}

TEST(Conformance, ABlockThatCapturesATensorIsFound) {
  EXPECT_LE(careless<Careless<false>>().value, 1e-12);
  const auto found = careless<Careless<true>>();
  EXPECT_GT(found.value, 1e-3);
  EXPECT_EQ(found.where.substr(0, 10), "input text");
}

}  // namespace
}  // namespace kinora
