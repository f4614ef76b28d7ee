// EDM's loss against the formulas written out in plain double arithmetic, and against its invariants.
#include <cmath>
#include <map>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/aten.hpp"
#include "plugins/losses/loss_testing.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using at::Tensor;
const std::vector<const char*> kOutputs = {"loss", "target", "weight", "c_skip", "c_out", "c_in", "c_noise"};

struct Edm : test::Instance<kinora_loss> {
  explicit Edm(const core::json& options = core::json::object()) : Instance("loss/edm", options) {}
  const kinora_loss& api() const { return *operator->(); }

  Tensor level(const Tensor& u) const {
    return made([&](kinora_tensor* o) { return api().level(self(), handle(u), o); });
  }
  Tensor noisy(const Tensor& x0, const Tensor& n, const Tensor& s) const {
    return made([&](kinora_tensor* o) { return api().noisy(self(), handle(x0), handle(n), handle(s), o); });
  }
  Tensor estimate(const Tensor& x, const Tensor& s, const Tensor& f) const {
    return made([&](kinora_tensor* o) { return api().estimate(self(), handle(x), handle(s), handle(f), o); });
  }
  std::pair<Tensor, Tensor> input(const Tensor& x, const Tensor& s) const {
    kinora_tensor latent = nullptr, timestep = nullptr;
    check(api().input(self(), handle(x), handle(s), &latent, &timestep));
    return {adopt<Tensor>(latent), adopt<Tensor>(timestep)};
  }
  std::map<std::string, Tensor> evaluate(const Tensor& x0, const Tensor& n, const Tensor& s, const Tensor& f,
                                         const char* name = "prediction") const {
    const kinora_named in[] = {
        {"latent", handle(x0)}, {"noise", handle(n)}, {"sigma", handle(s)}, {name, handle(f)}};
    kinora_tensor out[7] = {};
    check(api().evaluate(self(), in, 4, out, 7));
    std::map<std::string, Tensor> by_name;
    for (size_t i = 0; i < 7; ++i) by_name[kOutputs[i]] = adopt<Tensor>(out[i]);
    return by_name;
  }
  template <class F>
  static Tensor made(F call) {
    kinora_tensor out = nullptr;
    check(call(&out));
    return adopt<Tensor>(out);
  }
};

struct Data {
  Tensor x0, n, f, sigma;
};

Data data(at::ScalarType dtype = at::kDouble, bool per_frame = false) {
  at::manual_seed(3);
  const std::vector<int64_t> shape = {2, 3, 4, 2, 5};
  const auto o = at::TensorOptions().dtype(at::kDouble);
  Data d{at::randn(shape, o) * 0.5, at::randn(shape, o), at::randn(shape, o),
         at::randn(per_frame ? std::vector<int64_t>{2, 4} : std::vector<int64_t>{2}, o).exp()};
  for (Tensor* t : {&d.x0, &d.n, &d.f}) *t = t->to(dtype);
  return d;
}

double worst(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

// One element at a time: weight * (c_skip x + c_out F - x0)^2, averaged over a sample.
std::vector<double> by_hand(const Data& d, double sd) {
  const auto x0 = d.x0.contiguous(), n = d.n.contiguous(), f = d.f.contiguous();
  const int64_t B = x0.size(0), C = x0.size(1), T = x0.size(2), P = x0.size(3) * x0.size(4);
  std::vector<double> loss(size_t(B), 0.0);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t i = 0; i < C * T * P; ++i) {
      const double s = (d.sigma.dim() == 2 ? d.sigma[b][i / P % T] : d.sigma[b]).item<double>();
      const int64_t at = b * C * T * P + i;
      const double clean = x0.data_ptr<double>()[at], x = clean + s * n.data_ptr<double>()[at];
      const double estimate =
          sd * sd / (s * s + sd * sd) * x + s * sd / std::sqrt(s * s + sd * sd) * f.data_ptr<double>()[at];
      loss[size_t(b)] +=
          (s * s + sd * sd) / (s * sd * s * sd) * (estimate - clean) * (estimate - clean) / double(C * T * P);
    }
  return loss;
}

TEST(EdmLoss, EqualsTheFormulaByHand) {
  for (const bool per_frame : {false, true})
    for (const double sd : {0.5, 1.0}) {
      const Data d = data(at::kDouble, per_frame);
      const Tensor loss = Edm(core::json{{"sigma_data", sd}}).evaluate(d.x0, d.n, d.sigma, d.f)["loss"];
      const auto want = by_hand(d, sd);
      ASSERT_EQ(loss.numel(), 2);
      for (int64_t b = 0; b < 2; ++b) EXPECT_NEAR(loss[b].item<double>() / want[size_t(b)], 1, 1e-12);
    }
}

TEST(EdmLoss, PerfectPredictionCostsNothingAndEstimatesTheLatent) {
  const Edm edm;
  for (const bool per_frame : {false, true}) {
    const Data d = data(at::kDouble, per_frame);
    const Tensor target = edm.evaluate(d.x0, d.n, d.sigma, d.f)["target"];
    EXPECT_EQ(edm.evaluate(d.x0, d.n, d.sigma, target)["loss"].abs().max().item<double>(), 0);
    EXPECT_LT(worst(edm.estimate(edm.noisy(d.x0, d.n, d.sigma), d.sigma, target), d.x0), 1e-14);
  }
}

TEST(EdmLoss, ScalingsKeepUnitVarianceAndUnitWeight) {
  const Edm edm;
  const Data d = data();
  auto out = edm.evaluate(d.x0, d.n, d.sigma, d.f);
  const Tensor s2 = d.sigma.square();
  EXPECT_LT(worst(out["weight"] * out["c_out"].square(), at::ones({2}, at::kDouble)), 1e-15);
  EXPECT_LT(worst(out["c_in"].square() * (s2 + 0.25), at::ones({2}, at::kDouble)),
            1e-15);  // variance of the input
  EXPECT_LT(worst(out["c_out"].square(), (1 - out["c_skip"]).square() * 0.25 + out["c_skip"].square() * s2),
            1e-15);  // variance of the target
  EXPECT_LT(worst(out["c_noise"], d.sigma.log() / 4), 1e-15);
  const auto [latent, timestep] = edm.input(d.x0, d.sigma);
  EXPECT_LT(worst(latent, d.x0 * out["c_in"].reshape({2, 1, 1, 1, 1})), 1e-15);
  EXPECT_LT(worst(timestep, out["c_noise"]), 1e-15);
}

TEST(EdmLoss, GradientIsThatOfFiniteDifferences) {
  const Edm edm;
  Data d = data(at::kDouble, true);
  const Tensor f = d.f.clone().set_requires_grad(true);
  edm.evaluate(d.x0, d.n, d.sigma, f)["loss"].sum().backward();
  const double h = 1e-5;
  for (int64_t i : {0, 17, 63, 119}) {
    const auto loss = [&](double by) {
      Tensor moved = d.f.clone();
      moved.view(-1)[i] += by;
      return edm.evaluate(d.x0, d.n, d.sigma, moved)["loss"].sum().item<double>();
    };
    EXPECT_NEAR(f.grad().reshape(-1)[i].item<double>(), (loss(h) - loss(-h)) / (2 * h), 1e-9);
  }
}

// In float32 the loss computed from D - x0 has an error of 8e-6 at sigma = 2e-4, and more for a single
// element.
TEST(EdmLoss, Float32IsAccurateAtEveryLevel) {
  for (const double sigma : {2e-4, 1e-2, 1.0, 80.0}) {
    Data d = data();
    d.sigma = at::full({2}, sigma, at::kDouble);
    const Tensor exact = Edm().evaluate(d.x0, d.n, d.sigma, d.f)["loss"];
    for (auto& t : {&d.x0, &d.n, &d.f}) *t = t->to(at::kFloat);
    const Tensor loss = Edm().evaluate(d.x0, d.n, d.sigma, d.f)["loss"];
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    EXPECT_LT(worst(loss.to(at::kDouble) / exact, at::ones({2}, at::kDouble)), 2e-6) << sigma;
  }
}

TEST(EdmLoss, KeepsLowPrecisionOutOfItsStatistics) {
  const Data d = data(at::kBFloat16);
  const Edm edm;
  EXPECT_EQ(edm.noisy(d.x0, d.n, d.sigma).scalar_type(), at::kBFloat16);
  const auto [latent, timestep] = edm.input(d.x0, d.sigma);
  EXPECT_EQ(latent.scalar_type(), at::kBFloat16);
  EXPECT_EQ(timestep.scalar_type(), at::kFloat);
  for (const auto& [name, t] : edm.evaluate(d.x0, d.n, d.sigma, d.f))
    EXPECT_EQ(t.scalar_type(), at::kFloat) << name;
}

// 1e5 levels: mean and standard deviation of ln(sigma) within four standard errors, neighbours uncorrelated.
TEST(EdmLoss, LevelsAreLogNormalAndIndependent) {
  at::manual_seed(11);
  const int64_t n = 100000;
  const Tensor u = at::rand({n}, at::kDouble);
  const Tensor l = Edm(core::json{{"p_mean", -1.2}, {"p_std", 1.3}}).level(u).log();
  const double mean = l.mean().item<double>(), std = l.std().item<double>(), root = std::sqrt(double(n));
  EXPECT_NEAR(mean, -1.2, 4 * 1.3 / root);
  EXPECT_NEAR(std, 1.3, 4 * 1.3 / std::sqrt(2.0) / root);
  const Tensor c = (l - mean) / std;
  EXPECT_NEAR((c.slice(0, 1) * c.slice(0, 0, n - 1)).mean().item<double>(), 0, 4 / root);
  EXPECT_NEAR(c.pow(3).mean().item<double>(), 0, 4 * std::sqrt(15.0) / root);
}

TEST(EdmLoss, LevelIsTheInverseDistribution) {
  const Tensor z = at::linspace(-4, 4, 33, at::kDouble), u = 0.5 * at::erfc(-z / std::sqrt(2.0));
  EXPECT_LT(worst(Edm().level(u).log(), z), 1e-11);
  EXPECT_EQ(Edm().level(u.reshape({3, 11})).sizes(), at::IntArrayRef({3, 11}));  // each number on its own
  const Tensor clamped =
      Edm(core::json{{"sigma_min", 0.1}, {"sigma_max", 10.0}, {"limits", "clamp"}}).level(u);
  EXPECT_EQ(clamped.min().item<double>(), 0.1);
  EXPECT_EQ(clamped.max().item<double>(), 10);
}

TEST(EdmLoss, EqualsCosmosWithAndWithoutLogvar) {
  double error = 0;
  for (int i = 0; i < 6; ++i) {
    const test::Oracle o("losses.safetensors", "edm" + std::to_string(i));
    const auto loss = test::loss("loss/edm", o.options);
    const bool per_frame = o.exact("timestep").dim() == 2;
    const test::LossInputs given;
    const Tensor sigma = test::numbers("sigma", o.exact("timestep").sizes()).exp();
    auto in = given.with(sigma);
    const Tensor logvar = test::numbers("logvar", sigma.sizes()).set_requires_grad(true);
    if (o.has("grad.logvar")) in["logvar"] = logvar;
    const Tensor made = loss.evaluate(in).at("loss");
    made.sum().backward();
    error = test::worse(error, test::worst(made.detach(), o.exact("loss")));
    error = test::worse(error, test::worst(given.prediction.grad(), o.exact("grad.prediction")));
    if (o.has("grad.logvar")) error = test::worse(error, test::worst(logvar.grad(), o.exact("grad.logvar")));
    const auto input = loss.input(loss.noisy(given.latent, given.noise, sigma), sigma);
    error = test::worse(error, test::worst(input.latent, o.exact("latent")));
    error = test::worse(error, test::worst(input.timestep, o.exact("timestep")));
    EXPECT_LT(error, 1e-12) << i << per_frame;
  }
  RecordProperty("worst", std::to_string(error * 1e12) + "e-12");
}

TEST(EdmLoss, GradientOfLogvarIsThatOfFiniteDifferences) {
  auto in = test::LossInputs().with(test::numbers("sigma", {2, 4}).exp());
  in["logvar"] = test::numbers("logvar", {2, 4});
  for (const char* reduce : {"mean", "sum"})
    for (const char* leaf : {"prediction", "logvar"})
      test::expect_gradient(test::loss("loss/edm", {{"loss_reduce", reduce}}), in, leaf);
  in["logvar"] = at::zeros({2, 3}, at::kDouble);
  try {
    test::loss("loss/edm").evaluate(in);
    FAIL() << "logvar of another shape";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("logvar [2, 3] must be [B], or [B, T] for one per frame"),
              std::string::npos)
        << e.what();
  }
}

TEST(EdmLoss, NamesWhatIsWrong) {
  const Edm edm;
  const Data d = data();
  EXPECT_EQ(worst(edm.evaluate(d.x0, d.n, d.sigma, d.f, "output")["loss"],
                  edm.evaluate(d.x0, d.n, d.sigma, d.f)["loss"]),
            0);
  const auto message = [&](const Tensor& sigma) -> std::string {
    try {
      edm.evaluate(d.x0, d.n, sigma, d.f);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message(at::ones({3}, at::kDouble)).find("sigma [3]"), std::string::npos);
  EXPECT_NE(message(at::ones({2, 3}, at::kDouble)).find("the latent is [2, 3, 4, 2, 5]"), std::string::npos);
  EXPECT_THROW(edm.evaluate(d.x0, d.n, d.sigma, d.f, "flow"), Error);
}

// Rectified flow against Cosmos Predict 2's own scalings, and against its invariants.
const char* const kId = "loss/rectified-flow";

// Given frames have sigma = 0.
at::Tensor levels_of(const test::Oracle& o) {
  at::Tensor sigma = test::numbers("sigma", o.exact("timestep").sizes()).exp();
  const auto given = static_cast<int64_t>(o.exact("given").item<double>());
  if (given > 0) sigma.narrow(1, 0, given).zero_();
  return sigma;
}

TEST(RectifiedFlowLoss, EqualsCosmos) {
  double error = 0;
  for (int i = 0; i < 3; ++i) {
    const test::Oracle o("losses.safetensors", "rectified" + std::to_string(i));
    const auto loss = test::loss(kId, o.options);
    const at::Tensor sigma = levels_of(o);
    const test::LossInputs given;
    const auto made = loss.evaluate(given.with(sigma));
    made.at("loss").sum().backward();
    const auto input = loss.input(loss.noisy(given.latent, given.noise, sigma), sigma);
    for (const auto& [a, b] :
         std::vector<std::pair<at::Tensor, std::string>>{{made.at("loss").detach(), "loss"},
                                                         {given.prediction.grad(), "grad.prediction"},
                                                         {input.latent, "latent"},
                                                         {input.timestep, "timestep"},
                                                         {made.at("timestep"), "timestep"}}) {
      EXPECT_LT(test::worst(a, o.exact(b)), 1e-12) << i << b;
      error = test::worse(error, test::worst(a, o.exact(b)));
    }
  }
  RecordProperty("worst", std::to_string(error * 1e12) + "e-12");
}

TEST(RectifiedFlowLoss, PerfectPredictionCostsNothingAndEstimatesTheLatent) {
  const auto loss = test::loss(kId);
  test::LossInputs given;
  for (const double sigma : {1e-3, 1.0, 80.0, 1e5}) {
    const at::Tensor s = at::full({2}, sigma, at::kDouble);
    given.prediction = loss.evaluate(given.with(s)).at("target");
    EXPECT_EQ(loss.evaluate(given.with(s)).at("loss").abs().max().item<double>(), 0);
    const at::Tensor x = loss.noisy(given.latent, given.noise, s);
    EXPECT_LT(test::worst(loss.estimate(x, s, given.prediction), given.latent), 1e-12) << sigma;
    const at::Tensor weight = loss.evaluate(given.with(s)).at("weight");
    EXPECT_LT(test::worst(weight * (s / (1 + s)).square(), at::ones({2}, at::kDouble)), 1e-12);
  }
}

TEST(RectifiedFlowLoss, GivenFramesStayAsTheyAre) {
  const auto loss = test::loss(kId);
  const test::LossInputs given;
  const at::Tensor s = at::zeros({2, 4}, at::kDouble);
  const at::Tensor x = loss.noisy(given.latent, given.noise, s);
  EXPECT_TRUE(at::equal(x, given.latent));
  EXPECT_TRUE(at::equal(loss.estimate(x, s, given.prediction.detach()), given.latent));
  const auto made = loss.evaluate(given.with(s));
  EXPECT_EQ(made.at("loss").abs().max().item<double>(), 0);
  EXPECT_TRUE(made.at("weight").isfinite().all().item<bool>());
}

TEST(RectifiedFlowLoss, GradientIsThatOfFiniteDifferences) {
  test::expect_gradient(test::loss(kId), test::LossInputs().with(test::numbers("sigma", {2, 4}).exp()),
                        "prediction");
}

}  // namespace

}  // namespace kinora
