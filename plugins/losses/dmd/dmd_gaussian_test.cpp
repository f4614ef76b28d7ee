// loss/dmd moves a generator to the data's distribution: Gaussian data, whose scores are known exactly.
//
// The data is N(m, S) and the generator x = A z + b with z ~ N(0, 1) makes N(b, A A^T). For N(m, C) with noise,
// x_t = (1 - s) x + s n, the best estimate of x is m + K (x_t - (1 - s) m) with K = (1 - s) C ((1 - s)^2 C + s^2)^-1.
// Where both distributions are equal the gradient of every sample is 0, so the noise of minibatches vanishes there and
// the moments are reached to rounding.
#include <functional>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "plugins/losses/loss_testing.hpp"

namespace kinora {
namespace {

using at::Tensor;
using core::json;

constexpr int64_t B = 64, D = 4, kSteps = 200;
constexpr double kRate = 2, kShift = 5;

struct Moments {
  Tensor mean, covariance;  // [D], [D, D]
};

Moments truth() {
  const Tensor l =
      at::tensor({1.2, 0., 0., 0., 0.6, 0.9, 0., 0., -0.3, 0.5, 0.7, 0., 0.2, -0.4, 0.3, 0.5}, at::kDouble)
          .view({D, D});
  return {at::tensor({1.5, -0.5, 0.3, 0.8}, at::kDouble), l.mm(l.t())};
}

// The posterior mean of x for x_t [B, D] at the levels s [B], of the distribution with these moments.
Tensor estimate(const Moments& of, const Tensor& x_t, const Tensor& s) {
  const Tensor a = (1 - s).view({B, 1, 1}), noise = s.square().view({B, 1, 1}) * at::eye(D, at::kDouble);
  const Tensor K = (a * of.covariance).matmul(at::linalg_inv(a.square() * of.covariance + noise));
  const Tensor apart = x_t - (1 - s).unsqueeze(1) * of.mean;
  return of.mean + K.matmul(apart.unsqueeze(2)).squeeze(2);
}

// The generator's moments after kSteps steps against these data. critic: its estimate of the clean samples x [B, D]
// for x_t at s, by the generator's moments.
using Critic = std::function<Tensor(const Moments& own, const Tensor& x, const Tensor& x_t, const Tensor& s)>;
Moments distilled(const Moments& data, const json& options, const Critic& critic) {
  const auto loss = test::loss("loss/dmd", options);
  at::manual_seed(7);
  Tensor A = (0.5 * at::eye(D, at::kDouble)).set_requires_grad(true),
         b = at::zeros({D}, at::kDouble).set_requires_grad(true);
  const auto own = [&] { return Moments{b.detach(), A.detach().mm(A.detach().t())}; };
  const auto video = [](const Tensor& x) { return x.view({B, 2, 2, 1, 1}); };
  for (int64_t step = 0; step < kSteps; ++step) {
    const Tensor u = at::rand({B}, at::kDouble), s = (kShift * u / (1 + (kShift - 1) * u)).clamp(0.02, 0.98);
    const Tensor x = at::randn({B, D}, at::kDouble).mm(A.t()) + b, plain = x.detach();
    const Tensor x_t = (1 - s).unsqueeze(1) * plain + s.unsqueeze(1) * at::randn({B, D}, at::kDouble);
    loss.evaluate({{"x", video(x)},
                   {"real", video(estimate(data, x_t, s))},
                   {"fake", video(critic(own(), plain, x_t, s))}})
        .at("loss")
        .mean()
        .backward();
    const at::NoGradGuard off;
    for (Tensor* t : {&A, &b}) {
      t->sub_(t->grad(), kRate);
      t->mutable_grad() = Tensor();
    }
  }
  return own();
}

Tensor exact(const Moments& own, const Tensor&, const Tensor& x_t, const Tensor& s) {
  return estimate(own, x_t, s);
}

double furthest(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(DmdOfGaussians, ReachesMeanAndCovariance) {
  for (const json& options : {json::object(), json{{"normalizer", "chunk"}, {"chunk", 1}}}) {
    const Moments want = truth(), got = distilled(want, options, exact);
    EXPECT_LT(furthest(got.mean, want.mean), 1e-9) << options;
    EXPECT_LT(furthest(got.covariance, want.covariance), 1e-9) << options;
  }
}

// With a teacher that knows 4,000 samples, the generator is as far from the data's distribution as their moments are:
// five standard errors, sqrt(S_ii / N) of a mean and sqrt((S_ii S_jj + S_ij^2) / N) of a covariance.
TEST(DmdOfGaussians, OfATeacherOfSamplesIsAsFarAsTheirMoments) {
  constexpr int64_t N = 4000;
  const Moments all = truth();
  at::manual_seed(3);
  const Tensor data = at::randn({N, D}, at::kDouble).mm(at::linalg_cholesky(all.covariance).t()) + all.mean;
  const Tensor centred = data - data.mean(0, true);
  const Moments seen{data.mean(0), centred.t().mm(centred) / N};
  const Moments got = distilled(seen, json::object(), exact);
  const Tensor S = all.covariance, v = S.diagonal();
  const Tensor of_mean = (v / N).sqrt(), of_covariance = ((v.unsqueeze(1) * v + S.square()) / N).sqrt();
  EXPECT_LT(((got.mean - all.mean).abs() / of_mean).max().item<double>(), 5);
  EXPECT_LT(((got.covariance - S).abs() / of_covariance).max().item<double>(), 5);
  EXPECT_LT(furthest(got.covariance, seen.covariance), 1e-9);
}

// The critic keeps the spread: a generator that is only pulled to the teacher's estimates shrinks to a point.
TEST(DmdOfGaussians, ShrinksWithoutACritic) {
  const Moments want = truth();
  const Moments got = distilled(
      want, json::object(), [](const Moments&, const Tensor& x, const Tensor&, const Tensor&) { return x; });
  EXPECT_LT(got.covariance.trace().item<double>(), 0.5 * want.covariance.trace().item<double>());
}

}  // namespace
}  // namespace kinora
