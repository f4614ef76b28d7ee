// Checks of losses, on small tensors in float64 that are made from the shapes in the manifest.
#include <algorithm>
#include <cmath>
#include <random>

#include "apps/validate/trial_call.hpp"
#include "apps/validate/trial_samples.hpp"
#include "apps/validate/trial_tensors.hpp"
#include "kinora/abi/loss.h"
#include "kinora/tensor.hpp"

namespace kinora {
namespace loss_checks_of {
namespace {

using Inputs = TrialInputs;

constexpr int64_t kBatch = 2, kClasses = 5;

// The manifest's inputs: normal numbers, noise levels in (0, 1), classes below V, true.
Inputs inputs_of(const PluginTrial& t) {
  std::mt19937_64 draw(t.subject.seed);
  std::normal_distribution<double> normal;
  Inputs out;
  for (const auto& spec : t.spec.inputs) {
    if (spec.is_optional) continue;
    const auto shape = trial_shape(spec.shape, {{'V', kClasses}, {'T', 3}, {'N', 3}, {'.', 3}}, 2);
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    std::vector<double> v;
    for (int64_t i = 0; i < n; ++i)
      v.push_back(spec.name == "sigma"             ? 0.2 + 0.6 * static_cast<double>(draw() % 1000) / 1000
                  : spec.dtype.starts_with("int")  ? static_cast<double>(draw() % kClasses)
                  : spec.dtype.starts_with("bool") ? 1.0
                                                   : normal(draw));
    const int32_t dtype = spec.dtype.starts_with("int")    ? KINORA_DTYPE_INT64
                          : spec.dtype.starts_with("bool") ? KINORA_DTYPE_BOOL
                                                           : KINORA_DTYPE_FLOAT64;
    out[spec.name] = tensor(v, shape).to(dtype);
  }
  return out;
}

// Inputs that come from a model, so that a gradient must flow into them.
bool is_of_model(const std::string& name, const Tensor& t) {
  return t.dtype() == KINORA_DTYPE_FLOAT64 && name != "latent" && name != "noise" && name != "sigma" &&
         name != "target";
}

class Loss {
 public:
  explicit Loss(const PluginTrial& t) : t_(t), options_(t.options()), made_(t, options_) {}

  // The status; outputs in the manifest's order.
  int32_t evaluate(const Inputs& in, std::vector<Tensor>& made) const {
    const auto given = named(in);
    std::vector<kinora_tensor> out(std::max<size_t>(1, t_.spec.outputs.size()), nullptr);
    const int32_t status = made_.api.evaluate(made_.self, given.data(), given.size(), out.data(), out.size());
    for (auto* h : out) made.push_back(Tensor::adopt(h));
    return status;
  }
  // Output `loss`. Throws Error.
  Tensor loss(const Inputs& in) const {
    std::vector<Tensor> made;
    require_ok([&] { return evaluate(in, made); }, "evaluate()");
    if (!made[0].defined() || made[0].sizes() != std::vector<int64_t>{kBatch})
      throw Error(KINORA_ERROR_INVALID,
                  "the first output of evaluate() is not `loss` [B], one number for each sample");
    return made[0];
  }
  std::vector<double> values(const Inputs& in) const { return numbers(loss(in)); }

 private:
  const PluginTrial& t_;
  core::Options options_;
  TrialInstance<kinora_loss> made_;
};

// A loss whose inputs cannot be made from the manifest says so by an error on the usual ones.
Inputs usual(const PluginTrial& t, const Loss& loss) {
  Inputs in = inputs_of(t);
  try {
    loss.values(in);
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_INVALID && t.spec.inputs.empty())
      throw Skipped{"its manifest names no inputs"};
    throw Error(e.code(), std::string("inputs in plugin.toml's shapes: ") + e.what());
  }
  return in;
}

double sum_of(const Loss& loss, const Inputs& in) {
  double sum = 0;
  for (const double v : loss.values(in)) sum += v;
  return sum;
}

// The largest difference of autograd from central differences at some elements of one input, over max(1, |g|).
double worst_gradient(const Loss& loss, Inputs in, const std::string& name) {
  const Tensor plain = in.at(name).contiguous(), leaf = plain + 0.0;
  check(tensors_api().set_requires_grad(leaf.get(), 1));
  in[name] = leaf;
  const Tensor total = loss.loss(in).sum();
  watch().now("the backward of `loss`");
  const auto g = gradients(total, full_like(total, 1.0), {leaf})[0];
  in[name] = plain;
  double worst = 0;
  for (size_t i = 0; i < g.size(); i += std::max<size_t>(1, g.size() / 7))
    worst = std::max(worst, require_slope(fmt::format("`loss` by {}[{}]", name, i), g[i],
                                          plain.data<double>() + i, [&] { return sum_of(loss, in); }));
  return worst;
}

// Output `grad` of a loss that says its derivative itself, flat; empty for the others.
std::vector<double> own_derivative(const PluginTrial& t, const Loss& loss, const Inputs& in) {
  std::vector<Tensor> made;
  require_ok([&] { return loss.evaluate(in, made); }, "evaluate()");
  for (size_t i = 0; i < t.spec.outputs.size(); ++i)
    if (t.spec.outputs[i].name == "grad" && made[i].defined()) return numbers(made[i]);
  return {};
}

// The derivative by the first input is `grad` over the sample's elements, and 0 by the others.
std::string check_own_derivative(const PluginTrial& t, const Loss& loss, Inputs in,
                                 const std::vector<double>& grad) {
  std::vector<std::string> names;
  std::vector<Tensor> leaves;
  for (const auto& spec : t.spec.inputs) {
    if (!in.contains(spec.name) || !is_of_model(spec.name, in.at(spec.name))) continue;
    names.push_back(spec.name);
    leaves.push_back(in.at(spec.name) + 0.0);
    check(tensors_api().set_requires_grad(leaves.back().get(), 1));
    in[spec.name] = leaves.back();
  }
  const Tensor total = loss.loss(in).sum();
  const auto found = gradients(total, full_like(total, 1.0), leaves);
  for (size_t n = 0; n < names.size(); ++n)
    for (size_t i = 0; i < found[n].size(); ++i) {
      const double elements = static_cast<double>(found[n].size()) / kBatch;
      const double expected = n > 0 ? 0.0 : i < grad.size() ? grad[i] / elements : NAN;
      if (!(std::abs(found[n][i] - expected) <= 1e-9 * std::max(1.0, std::abs(expected))))
        throw Error(
            KINORA_ERROR_FAILED,
            fmt::format("the gradient of `loss` by {}[{}] is {:.9g}, and {:.9g} by the output `grad`, "
                        "which gives the derivative by the first input",
                        names[n], i, found[n][i], expected));
    }
  return "as the output `grad` says";
}

std::string check_gradients(PluginTrial& t) {
  const Loss loss(t);
  const Inputs in = usual(t, loss);
  if (const auto grad = own_derivative(t, loss, in); !grad.empty())
    return check_own_derivative(t, loss, in, grad);
  std::string said;
  for (const auto& [name, x] : in) {
    if (!is_of_model(name, x)) continue;
    said += fmt::format("{}{} within {:.1g}", said.empty() ? "" : ", ", name, worst_gradient(loss, in, name));
  }
  if (said.empty()) throw Skipped{"none of its inputs is the output of a model"};
  return said;
}

std::string check_values(PluginTrial& t) {
  const Loss loss(t);
  const Inputs in = usual(t, loss);
  const auto before = loss.values(in);
  for (const double v : before)
    if (!std::isfinite(v))
      throw Error(KINORA_ERROR_FAILED, fmt::format("`loss` of ordinary inputs is {}", v));
  Inputs zero = in;
  for (auto& [name, x] : zero)
    if (name != "sigma" && x.dtype() == KINORA_DTYPE_FLOAT64) x = full_like(x, 0.0);
  for (const double v : loss.values(zero))
    if (!std::isfinite(v))
      throw Error(
          KINORA_ERROR_FAILED,
          fmt::format("`loss` of inputs that are all zero is {}; guard the division or the logarithm", v));
  for (const auto& [name, x] : in) {
    if (!is_of_model(name, x)) continue;
    const Tensor c = x.contiguous();
    std::vector<double> v(c.data<double>(), c.data<double>() + c.numel());
    std::fill(v.begin(), v.begin() + static_cast<ptrdiff_t>(v.size() / kBatch), NAN);
    Inputs broken = in;
    broken[name] = tensor(v, c.sizes());
    const auto after = loss.values(broken);
    if (!std::isnan(after[0]))
      throw Error(KINORA_ERROR_FAILED, fmt::format("`loss` of a sample whose {} is NaN is {}; let NaN "
                                                   "through, so that a run that diverges is seen",
                                                   name, after[0]));
    if (!(std::abs(after[1] - before[1]) <= 1e-9 * std::max(1.0, std::abs(before[1]))))
      throw Error(KINORA_ERROR_FAILED, fmt::format("`loss` of sample 1 changes from {} to {} when {} of "
                                                   "sample 0 is NaN; each number is of one sample only",
                                                   before[1], after[1], name));
  }
  return "";
}

std::string check_same_loss(PluginTrial& t) {
  const Loss one(t), other(t);
  const Inputs in = usual(t, one);
  const auto first = one.values(in), again = one.values(in), another = other.values(in);
  if (first != again || first != another)
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("the same inputs gave the losses {:.17g}, {:.17g} and, by another instance, "
                            "{:.17g}; keep no state and draw no numbers",
                            fmt::join(first, " "), fmt::join(again, " "), fmt::join(another, " ")));
  return "";
}

std::string check_loss_handles(PluginTrial& t) {
  require_no_handles(t.subject.plugin->tier, [&] {
    const Loss loss(t);
    const Inputs in = usual(t, loss);
    std::vector<Tensor> made;
    for (const auto& [name, x] : in) {
      Inputs wrong = in;
      wrong[name] = x.narrow(0, 0, 1);
      answer("evaluate() of one sample of " + name, [&] { return loss.evaluate(wrong, made); });
    }
  });
  return "";
}

std::string check_loss_tensors(PluginTrial& t) {
  const Loss loss(t);
  with_hostile_inputs(usual(t, loss), [&](const std::string& what, const Inputs& in) {
    std::vector<Tensor> made;
    answer("evaluate() " + what, [&] { return loss.evaluate(in, made); });
  });
  return "";
}

constexpr Check kChecks[] = {
    {"gradients", "loss", "gradients equal finite differences in float64", false, nullptr, check_gradients},
    {"values", "loss", "finite at zero, NaN stays NaN, and each number is of one sample", false, nullptr,
     check_values},
    {"same-loss", "loss", "the same inputs give the same bits, again and by another instance", false, nullptr,
     check_same_loss},
    {"loss-leaks", "loss", "every handle to a tensor is released, also after an error", false, nullptr,
     check_loss_handles},
    {"loss-tensors", "loss",
     "tensors that are missing, empty, strided, zero-dimensional, bf16 or of another shape get an answer",
     false, nullptr, check_loss_tensors}};

}  // namespace
}  // namespace loss_checks_of

std::span<const Check> loss_checks() { return loss_checks_of::kChecks; }

}  // namespace kinora
