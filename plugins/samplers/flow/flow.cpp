// Samplers for flow matching: Euler and UniPC.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <vector>

#include "kinora/plugin.hpp"
#include "kinora/sampler.hpp"
#include "kinora/tensor.hpp"

namespace kinora {

namespace {

// Noise levels of flow samplers: evenly spaced numbers u, then shift u / (1 + (shift - 1) u), which puts
// more of the steps at high noise (Esser et al. 2024, arXiv 2403.03206), then 0.
// [steps + 1], descending from near 1 to 0. first, last: u of level 0 and of level `points` - 1; levels
// beyond the steps are omitted. The shift is applied once.
std::vector<double> flow_levels(int64_t steps, double shift, double first, double last, int64_t points) {
  std::vector<double> out;
  for (int64_t i = 0; i < steps; ++i) {
    const double along = static_cast<double>(i) / static_cast<double>(std::max<int64_t>(points - 1, 1));
    const double u = first + along * (last - first);
    out.push_back(shift * u / (1 + (shift - 1) * u));
  }
  out.push_back(0);
  return out;
}

}  // namespace

// Euler's method along the line x = (1 - s) x0 + s n: each step follows the velocity (x - x0) / s at its
// start. One denoiser call per step.
//
// The grid "diffusers" is FlowMatchEulerDiscreteScheduler's with the intended meaning of `shift`. Without
// explicit levels, that class takes its range from levels that are already shifted and shifts them again, so
// that its last level moves from 0.005 to 0.024 at shift 5; with explicit levels, as in pipelines, it shifts
// once, as here. "diffusers-alone" is the class without explicit levels, as Wan's pipelines use it.
class FlowEuler final : public Sampler {
 public:
  static constexpr uint32_t mix = KINORA_MIX_RECTIFIED_FLOW;
  struct Options {
    int64_t steps = 50;
    double shift = 1;
    std::string convention = "diffusers";
  };
  static void describe(Describe<Options>& d) {
    d.name("flow-euler").help("Euler's method for flow matching, order 1");
    d.option("steps", &Options::steps).range(1, 100000).help("number of steps, one denoiser call each");
    d.option("shift", &Options::shift)
        .above(0)
        .help("shift of the levels; above 1: more steps at high noise; Wan 5 or 3");
    d.option("convention", &Options::convention)
        .choices({"diffusers", "uniform", "diffusers-alone"})
        .help(
            "levels before the shift: `steps` levels from 1 to 0.001, then 0; or 1, 1 - 1 / steps, ..., 0; "
            "or "
            "those of diffusers' class without explicit levels, which shifts the 0.001 twice");
  }
  explicit FlowEuler(const Options& o)
      : s_(o.convention == "uniform" ? flow_levels(o.steps, o.shift, 1, 0, o.steps + 1)
                                     : flow_levels(o.steps, o.shift, 1, last_of(o), o.steps)) {}

  std::vector<double> levels() const override { return s_; }

  Tensor sample(const Denoiser& denoise, const Tensor& noise, const Run& run) override {
    Tensor x = denoise.begin(noise, 1);
    const size_t steps = s_.size() - 1;
    for (size_t i = denoise.first(); i < steps; ++i) {
      const Tensor x0 = denoise(x, s_[i]);
      x = x + (x - x0) * ((s_[i + 1] - s_[i]) / s_[i]);
      run.progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(steps), x0.get());
    }
    return x;
  }

 private:
  // u of the last level before 0.
  static double last_of(const Options& o) {
    return o.convention == "diffusers" ? 0.001 : o.shift * 0.001 / (1 + (o.shift - 1) * 0.001);
  }
  std::vector<double> s_;
};
KINORA_COMPONENT(FlowEuler)

namespace {

struct Prediction {
  double s;
  Tensor x0;
};

// UniPC predicts x0, with alpha = 1 - s, sigma = s and this lambda, ln((1 - s) / s).
double lambda(double s) { return std::log1p(-s) - std::log(s); }

// Solves sum_k r_k^i a_k = b_i, i = 0 .. n - 1, for distinct r: Gaussian elimination with row pivoting for
// the largest pivot.
std::vector<double> vandermonde(const std::vector<double>& r, std::vector<double> b) {
  const size_t n = r.size();
  std::vector<std::vector<double>> m(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < n; ++k) m[i][k] = std::pow(r[k], static_cast<double>(i));
  for (size_t c = 0; c < n; ++c) {
    size_t pivot = c;
    for (size_t i = c; i < n; ++i)
      if (std::abs(m[i][c]) > std::abs(m[pivot][c])) pivot = i;
    std::swap(m[c], m[pivot]);
    std::swap(b[c], b[pivot]);
    for (size_t i = 0; i < n; ++i) {
      if (i == c) continue;
      const double by = m[i][c] / m[c][c];
      for (size_t k = c; k < n; ++k) m[i][k] -= by * m[c][k];
      b[i] -= by * b[c];
    }
  }
  for (size_t i = 0; i < n; ++i) b[i] /= m[i][i];
  return b;
}

// The right-hand side of the paper's equations for the weights: z i! phi_{i+1}(z) / B, i = 1 .. n.
std::vector<double> moments(double z, double B, size_t n) {
  std::vector<double> out;
  double phi = std::expm1(z) / z - 1, factorial = 1;
  for (size_t i = 1; i <= n; ++i) {
    out.push_back(phi * factorial / B);
    factorial *= static_cast<double>(i + 1);
    phi = phi / z - 1 / factorial;
  }
  return out;
}

// One step of UniPC (Zhao et al. 2023, arXiv 2302.04867): x at history[0].s -> x at `to`. history: newest
// first, at least `order` entries. Without `at_end` this is the predictor UniP, otherwise the corrector UniC,
// which also uses the prediction at `to`. bh1: B(h) is h, else e^h - 1.
Tensor unipc_step(const Tensor& x, double to, const std::deque<Prediction>& history, int64_t order, bool bh1,
                  const Tensor& at_end = {}) {
  const double s = history[0].s;
  const Tensor& x0 = history[0].x0;
  if (to == 0) return x0;  // h is infinite: the result of the step is x0
  const double h = lambda(to) - lambda(s), grown = std::expm1(-h), B = bh1 ? -h : grown;
  Tensor next = x * (to / s) - x0 * ((1 - to) * grown);
  // Differences of predictions, each divided by its distance r in units of h; the corrector's own has r = 1.
  std::vector<double> r;
  for (int64_t k = 1; k < order; ++k)
    r.push_back((lambda(history[static_cast<size_t>(k)].s) - lambda(s)) / h);
  if (at_end.defined()) r.push_back(1);
  std::vector<double> weight;
  if (r.size() == 1) {
    weight = {0.5};  // a degree of freedom; the paper's choice
  } else if (r.size() > 1) {
    weight = vandermonde(r, moments(-h, B, r.size()));
  }
  for (size_t k = 0; k < r.size(); ++k) {
    const Tensor& other = at_end.defined() && k + 1 == r.size() ? at_end : history[k + 1].x0;
    next = next - (other - x0) * ((1 - to) * B * weight[k] / r[k]);
  }
  return next;
}

}  // namespace

// UniPC for flow matching (Zhao et al. 2023, arXiv 2302.04867): a multistep predictor, and a corrector that
// reuses the next call's prediction, so that a step costs one denoiser call. `steps` calls.
//
// The first step has no history. The last step, to zero, is of first order and is not corrected; diffusers'
// bh1 multiplies infinity by 0 there, this one returns x0 as bh2 does.
class Unipc final : public Sampler {
 public:
  static constexpr uint32_t mix = KINORA_MIX_RECTIFIED_FLOW;
  struct Options {
    int64_t steps = 50, order = 2;
    double shift = 1;
    std::string solver_type = "bh2", convention = "wan";
    bool lower_order_final = true;
  };
  static void describe(Describe<Options>& d) {
    d.name("unipc").help("UniPC for flow matching, order 1 to 3, plus 1 by its corrector");
    d.option("steps", &Options::steps).range(1, 100000).help("number of steps, one denoiser call each");
    d.option("shift", &Options::shift)
        .above(0)
        .help("shift of the levels; above 1: more steps at high noise; Wan 5 or 3");
    d.option("order", &Options::order)
        .range(1, 3)
        .help("order of the predictor: number of predictions it uses");
    d.option("solver_type", &Options::solver_type)
        .choices({"bh1", "bh2"})
        .help("B(h) of the paper: h, or e^h - 1");
    d.option("lower_order_final", &Options::lower_order_final)
        .help("order 2 and 1 for the last steps; else only the step to zero has order 1");
    d.option("convention", &Options::convention)
        .choices({"wan", "diffusers"})
        .help(
            "levels from 0.999 down to 0 before the shift (Wan, diffusers before 0.37), or from 1 to 0.001");
  }
  explicit Unipc(const Options& o) : o_(o) {
    if (o.convention == "wan") {
      s_ = flow_levels(o.steps, o.shift, 0.999, 0, o.steps + 1);
    } else {
      s_ = flow_levels(o.steps, o.shift, 1, 0.001, o.steps + 1);
      s_[0] -= 1e-6;  // at 1 lambda is infinite
    }
  }

  std::vector<double> levels() const override { return s_; }

  Tensor sample(const Denoiser& denoise, const Tensor& noise, const Run& run) override {
    Tensor x = denoise.begin(noise, 1), start;  // start: corrected x where the last predictor began
    std::deque<Prediction> history;
    const bool bh1 = o_.solver_type == "bh1";
    int64_t order = 0;
    const auto first = static_cast<int64_t>(denoise.first());
    for (int64_t i = first; i < o_.steps; ++i) {
      const double s = s_[static_cast<size_t>(i)];
      const Tensor x0 = denoise(x, s);
      if (i > first) x = unipc_step(start, s, history, order, bh1, x0);
      history.push_front({s, x0});
      if (history.size() > 3) history.pop_back();
      order = std::min({o_.order, i - first + 1, o_.lower_order_final ? o_.steps - i : o_.order});
      start = x;
      x = unipc_step(start, s_[static_cast<size_t>(i) + 1], history, order, bh1);
      run.progress(i + 1, o_.steps, x0.get());
    }
    return x;
  }

 private:
  Options o_;
  std::vector<double> s_;
};
KINORA_COMPONENT(Unipc)

KINORA_PLUGIN(FlowEuler, Unipc, FlowRenoise)

}  // namespace kinora
