// cache/kv and the linear layers that project a text: each is computed once a text, and every result is that of
// the given text.
#include "plugins/caches/kv/kv_testing.hpp"

namespace kinora::kv_test {
namespace {

// Two layers of keys and values, and one of the timestep, whose weights are 1, 2 and 3.
struct OfText {
  Kv kv;
  Context<Tensor> context{kv.link->context};
  std::vector<kinora_param> layers;
  OfText() {
    for (const Role role : {Role::column, Role::column, Role::whole}) {
      Parameter p;
      p.role = role;
      layers.push_back(context.parameter(p));
    }
  }
  Tensor result(size_t layer, const Tensor& x, kinora_seq seq = 0) {
    return context.linear(x, layers.at(layer), 0, seq);
  }
  // How many layers a forward with this text computes, each by its number.
  int64_t computed(const Tensor& text) {
    const int64_t before = kv.end.linears;
    for (size_t layer : {0, 1})
      EXPECT_TRUE(at::equal(result(layer, text), text * static_cast<double>(layer + 1))) << layer;
    return kv.end.linears - before;
  }
};

Tensor a_text(double first) { return at::arange(6, at::kDouble).reshape({1, 2, 3}) + first; }

TEST(LinearsOfText, AreComputedOnceAText) {
  const at::NoGradGuard off;
  OfText of;
  of.kv.pass.read_only = 1;
  EXPECT_EQ(of.computed(a_text(1)), 2);
  of.kv.pass.read_only = 0;
  const Tensor same = a_text(1);
  EXPECT_EQ(of.computed(same), 0) << "another tensor of the same numbers";
  EXPECT_EQ(of.computed(same), 0);
  EXPECT_EQ(of.computed(a_text(2)), 2);
  EXPECT_EQ(of.computed(same), 2) << "the last text alone is kept";
  EXPECT_EQ(of.computed(same.narrow(1, 0, 1)), 2) << "a shorter text";
  EXPECT_EQ(of.computed(same.narrow(1, 0, 1).to(at::kFloat)), 2) << "the same numbers in another dtype";
  EXPECT_EQ(of.kv.tokens(), 0);
}

TEST(LinearsOfText, BelongToASessionAndABranch) {
  const at::NoGradGuard off;
  OfText of;
  const auto in = [&](uint64_t session, uint32_t branch) {
    of.kv.pass.session = session, of.kv.pass.branch = branch;
    return of.computed(a_text(static_cast<double>(branch)));
  };
  EXPECT_EQ(in(0, 0) + in(0, 1) + in(1, 0), 6);
  EXPECT_EQ(in(0, 0) + in(0, 1) + in(1, 0), 0) << "the prompt and the negative prompt take turns";
  of.kv.pass.session = 0;
  of.kv.reset(1);
  EXPECT_EQ(in(0, 0), 0);
  EXPECT_EQ(in(0, 1), 2);
  of.kv.reset(KINORA_BRANCH_ALL);
  EXPECT_EQ(in(0, 0) + in(1, 0), 2);
}

TEST(LinearsOfText, CountAmongTheBytesOfTheSession) {
  const at::NoGradGuard off;
  OfText of;
  of.kv.forward(0, 4);
  const int64_t of_tokens = of.kv.bytes();
  of.computed(a_text(1));
  EXPECT_EQ(of.kv.bytes(), of_tokens + 2 * 6 * 8) << "two layers, six numbers in float64";
  of.computed(a_text(2).narrow(1, 0, 1));
  EXPECT_EQ(of.kv.bytes(), of_tokens + 2 * 3 * 8) << "the last text alone";
  of.kv.pass.branch = 1;
  of.computed(a_text(1));
  EXPECT_EQ(of.kv.bytes(), of_tokens + 2 * 3 * 8 + 2 * 6 * 8) << "of all branches";
  of.kv.trim(KINORA_BRANCH_ALL, 0);
  EXPECT_EQ(of.kv.bytes(), 2 * 3 * 8 + 2 * 6 * 8) << "no token is left";
  of.kv.reset(KINORA_BRANCH_ALL);
  EXPECT_EQ(of.kv.bytes(), 0);
}

TEST(LinearsOfText, OthersAreComputedInEachForward) {
  const at::NoGradGuard off;
  OfText of;
  const Tensor x = a_text(1);
  const auto counted = [&](const auto& call) {
    const int64_t before = of.kv.end.linears;
    call(), call();
    return of.kv.end.linears - before;
  };
  EXPECT_EQ(counted([&] { of.result(2, x); }), 2) << "of the timestep";
  EXPECT_EQ(counted([&] { of.result(0, x, 1); }), 2) << "of tokens";
  EXPECT_EQ(counted([&] { of.result(0, at::full_like(x, NAN)); }), 2) << "equal to nothing";
  const at::AutoGradMode on(true);
  EXPECT_EQ(counted([&] { of.result(0, x); }), 2) << "a result with a gradient";
}

}  // namespace
}  // namespace kinora::kv_test
