#include "apps/validate/trial_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "core/runtime/tensor_service.hpp"

namespace kinora {

std::vector<kinora_named> named(const TrialInputs& in) {
  std::vector<kinora_named> out;
  for (const auto& [name, tensor] : in) out.push_back({name.c_str(), tensor.get()});
  return out;
}

Tensor normal(uint64_t seed, const std::vector<int64_t>& shape) {
  std::mt19937_64 draw(seed);
  std::normal_distribution<double> of;
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  std::vector<double> v(static_cast<size_t>(n));
  for (double& x : v) x = of(draw);
  return tensor(v, shape);
}

Tensor trial_input(const core::TensorSpec& spec, const core::Options& options,
                   const std::map<std::string, int64_t>& sizes, uint64_t seed) {
  const auto size_of = [&](const std::string& axis) -> int64_t {
    if (std::all_of(axis.begin(), axis.end(), [](unsigned char c) { return std::isdigit(c); }))
      return std::stoll(axis);
    if (const auto at = options.values().find(axis); at != options.values().end() && at->is_number_integer())
      return *at;
    const auto known = sizes.find(axis);
    return known == sizes.end() ? 2 : known->second;
  };
  std::vector<int64_t> shape;
  if (const auto known = spec.shapes(); !known.empty())
    for (const auto& axis : known[0]) shape.push_back(size_of(axis));
  const Tensor drawn = normal(seed, shape);
  if (spec.dtype.starts_with("bool")) return full_like(drawn, 1.0).to(KINORA_DTYPE_BOOL);
  if (!spec.dtype.starts_with("int") && !spec.dtype.starts_with("uint")) return drawn;
  return op("aten::gt", "Scalar", {drawn, 0.0})
      .to(spec.dtype == "int32"   ? KINORA_DTYPE_INT32
          : spec.dtype == "uint8" ? KINORA_DTYPE_UINT8
                                  : KINORA_DTYPE_INT64);
}

Tensor on_meta(const Tensor& t) {
  static const auto chain = core::tensors().plain_chain({.is_meta = true}, {});
  ++watch().tensors;
  return Tensor::adopt(chain->on_device(t.get()));
}

std::vector<double> numbers(const Tensor& t) {
  const Tensor c = t.detach().to(KINORA_DTYPE_FLOAT64).contiguous();
  return {c.data<double>(), c.data<double>() + c.numel()};
}

double relative_error(const std::vector<double>& found, const std::vector<double>& exact) {
  if (found.size() != exact.size()) return INFINITY;
  double off = 0, all = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    off += (found[i] - exact[i]) * (found[i] - exact[i]);
    all += exact[i] * exact[i];
  }
  return std::sqrt(off) / std::max(std::sqrt(all), 1e-300);
}

std::string shape_text(const std::vector<int64_t>& sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

double require_slope(const std::string& of, double found, double* x, const std::function<double()>& f) {
  const double before = *x;
  double best = INFINITY, closest = 0;
  // The second step is for a function with kinks (ReLU), one of which the first may cross.
  for (const double step : {1e-5, 1e-7}) {
    *x = before + step;
    const double up = f();
    *x = before - step;
    const double expected = (up - f()) / (2 * step);
    *x = before;
    const double off = std::abs(found - expected) / std::max(1.0, std::abs(expected));
    if (off <= 1e-6) return off;
    if (off < best) best = off, closest = expected;
  }
  throw Error(KINORA_ERROR_FAILED,
              fmt::format("the gradient of {} is {:.9g}, and {:.9g} by finite differences in float64; "
                          "check its backward, and what it detaches",
                          of, found, closest));
}

std::vector<std::vector<double>> gradients(const Tensor& of, const Tensor& weight,
                                           const std::vector<Tensor>& leaves) {
  std::vector<kinora_tensor> handles, out(leaves.size(), nullptr);
  for (const auto& leaf : leaves) handles.push_back(leaf.get());
  if (of.requires_grad() && !leaves.empty()) {
    const kinora_tensor output = of.get(), weighted = weight.get();
    check(tensors_api().grad(&output, &weighted, 1, handles.data(), handles.size(), out.data()));
  }
  std::vector<std::vector<double>> made;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Tensor g = Tensor::adopt(out[i]);
    made.push_back(g.defined() ? numbers(g)
                               : std::vector<double>(static_cast<size_t>(leaves[i].numel()), 0.0));
  }
  return made;
}

std::vector<std::pair<std::string, Tensor>> hostile_tensors(const Tensor& given) {
  const Tensor usual = given.dtype() == KINORA_DTYPE_BOOL ? given.to(KINORA_DTYPE_FLOAT64) : given;
  std::vector<std::pair<std::string, Tensor>> out;
  if (usual.dim() > 0) out.emplace_back("that is empty", usual.narrow(0, 0, 0));
  out.emplace_back("of no dimension", usual.sum());
  const Tensor twice = op("aten::stack", "", {std::vector<Tensor>{usual, usual}, usual.dim() > 0 ? 1 : 0});
  out.emplace_back("that is strided", op("aten::select", "int", {twice, usual.dim() > 0 ? 1 : 0, 0}));
  if (usual.dtype() == KINORA_DTYPE_FLOAT64) {
    out.emplace_back("of bf16", usual.to(KINORA_DTYPE_BFLOAT16));
    out.emplace_back("of NaN", full_like(usual, NAN));
  }
  out.emplace_back("of the meta device", on_meta(usual));
  out.emplace_back("of int64", usual.to(KINORA_DTYPE_INT64));
  out.emplace_back("of shape [7, 3]", tensor(std::vector<double>(21, 0.5), {7, 3}).to(usual.dtype()));
  return out;
}

void with_hostile_inputs(const TrialInputs& usual,
                         const std::function<void(const std::string& what, const TrialInputs&)>& use) {
  for (const auto& [name, x] : usual) {
    for (const auto& [what, changed] : hostile_tensors(x)) {
      TrialInputs wrong = usual;
      wrong[name] = changed;
      use("of " + name + " " + what, wrong);
    }
    TrialInputs fewer = usual;
    fewer.erase(name);
    use("without " + name, fewer);
  }
}

void require_no_handles(core::Tier tier, const std::function<void()>& use) {
  if (tier != core::Tier::stable)
    throw Skipped{"a plugin of tier pinned makes handles that the host cannot count"};
  use();
  const int64_t before = watch().tensors;
  use();
  const int64_t left = watch().tensors - before;
  if (left != 0)
    throw Error(KINORA_ERROR_FAILED,
                left > 0 ? fmt::format("{} handles to tensors were taken and never released", left)
                         : fmt::format("{} handles to tensors were released once too often", -left));
}

}  // namespace kinora
