#include "plugins/optimizers/adamw/adamw_step.hpp"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/torch/parallel.hpp"
#include "plugins/optimizers/adamw/adamw_pass.hpp"

namespace kinora::adamw {
namespace {

template <class T>
void step_plain(const Update<at::Tensor>& u, const Constants& c) {
  const auto t = static_cast<double>(u.step);
  const AdamWNumbers<T> numbers{static_cast<T>(u.gradient_factor),
                                static_cast<T>(1 - u.learning_rate * u.weight_decay),
                                static_cast<T>(c.beta1),
                                static_cast<T>(c.beta2),
                                static_cast<T>(1 / std::sqrt(1 - std::pow(c.beta2, t))),
                                static_cast<T>(c.eps),
                                static_cast<T>(u.learning_rate / (1 - std::pow(c.beta1, t)))};
  T *w = u.weight.data_ptr<T>(), *m = u.states.at(0).data_ptr<T>(), *v = u.states.at(1).data_ptr<T>();
  const T* g = u.gradient.data_ptr<T>();
  in_parallel(u.weight.numel(), kGrain, [&](int64_t begin, int64_t end) {
    std::vector<AverageRange<T>> to;
    for (const auto& a : u.averages) to.push_back({a.values.data_ptr<T>() + begin, static_cast<T>(a.share)});
    adamw_pass<T>({w + begin, g + begin, m + begin, v + begin, end - begin}, numbers, to);
  });
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
  if (!is_plain(u.weight)) return step_elsewhere(u, c);
  u.weight.scalar_type() == at::kFloat ? step_plain<float>(u, c) : step_plain<double>(u, c);
}

}  // namespace kinora::adamw
