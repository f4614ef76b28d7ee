#include "plugins/optimizers/adamw/adamw_step.hpp"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/torch/gpu.hpp"
#include "kernels/torch/parallel.hpp"
#include "plugins/optimizers/adamw/adamw_pass.hpp"

namespace kinora::adamw {
namespace {

struct Numbers {
  double gradient_factor, keep, root2, step;
};
Numbers numbers_of(const Update<at::Tensor>& u, const Constants& c) {
  const auto t = static_cast<double>(u.step);
  return {u.gradient_factor, 1 - u.learning_rate * u.weight_decay, 1 / std::sqrt(1 - std::pow(c.beta2, t)),
          u.learning_rate / (1 - std::pow(c.beta1, t))};
}

template <class T>
void step_plain(const Update<at::Tensor>& u, const Constants& c) {
  const Numbers n = numbers_of(u, c);
  const auto as = [](double x) { return static_cast<T>(x); };
  const AdamWNumbers<T> numbers{as(n.gradient_factor), as(n.keep), as(c.beta1), as(c.beta2),
                                as(n.root2),           as(c.eps),  as(n.step)};
  T *w = u.weight.data_ptr<T>(), *m = u.states.at(0).data_ptr<T>(), *v = u.states.at(1).data_ptr<T>();
  const T* g = u.gradient.data_ptr<T>();
  in_parallel(u.weight.numel(), kGrain, [&](int64_t begin, int64_t end) {
    std::vector<AverageRange<T>> to;
    for (const auto& a : u.averages) to.push_back({a.values.data_ptr<T>() + begin, static_cast<T>(a.share)});
    adamw_pass<T>({w + begin, g + begin, m + begin, v + begin, end - begin}, numbers, to);
  });
}

// In one pass over memory by libkinora_cuda. Returns false, and does nothing, where it cannot.
bool step_on_gpu(const Update<at::Tensor>& u, const Constants& c) {
  if (u.weight.scalar_type() != at::kFloat || u.averages.size() > KINORA_CUDA_AVERAGES) return false;
  std::vector<at::Tensor> averages;
  std::vector<double> shares;
  for (const auto& a : u.averages) averages.push_back(a.values), shares.push_back(a.share);
  bool fits = gpu::fits({u.weight, u.gradient, u.states.at(0), u.states.at(1)});
  for (const at::Tensor& t : {u.weight, u.gradient, u.states.at(0), u.states.at(1)})
    fits = fits && t.is_contiguous();
  for (const at::Tensor& a : averages) fits = fits && a.is_contiguous() && gpu::fits({u.weight, a});
  if (!fits) return false;
  const Numbers n = numbers_of(u, c);
  kinora_cuda_adamw numbers{};
  numbers.gradient_factor = n.gradient_factor, numbers.keep = n.keep;
  numbers.beta1 = c.beta1, numbers.beta2 = c.beta2, numbers.root2 = n.root2;
  numbers.eps = c.eps, numbers.step = n.step, numbers.shares = shares.data();
  gpu::adamw(u.weight, u.gradient, u.states.at(0), u.states.at(1), averages, numbers);
  return true;
}

void step_elsewhere(const Update<at::Tensor>& u, const Constants& c) {
  const at::NoGradGuard off;
  const at::Tensor g = u.gradient_factor == 1 ? u.gradient : u.gradient * u.gradient_factor;
  const auto t = at::full({}, static_cast<double>(u.step), at::kFloat).to(u.weight.device());
  at::_fused_adamw_({u.weight}, {g}, {u.states.at(0)}, {u.states.at(1)}, {}, {t}, u.learning_rate, c.beta1,
                    c.beta2, u.weight_decay, c.eps, /*amsgrad=*/false, /*maximize=*/false);
  for (const auto& a : u.averages) {
    at::Tensor values = a.values;
    values.lerp_(u.weight.to(values.scalar_type()), a.share);
  }
}

}  // namespace

bool is_plain(const at::Tensor& weight) {
  const auto type = weight.scalar_type();
  return weight.is_cpu() && (type == at::kFloat || type == at::kDouble);
}

void step(const Update<at::Tensor>& u, const Constants& c) {
  if (!is_plain(u.weight)) {
    if (!step_on_gpu(u, c)) step_elsewhere(u, c);
    return;
  }
  u.weight.scalar_type() == at::kFloat ? step_plain<float>(u, c) : step_plain<double>(u, c);
}

}  // namespace kinora::adamw
