#include "plugins/models/wan/layers.hpp"

#include <cmath>

namespace kinora::wan {

using at::Tensor;

kinora_param Declare::parameter(const std::string& name, std::vector<int64_t> shape, Init init, Role role,
                                int64_t quantum) const {
  Parameter p;
  p.name = prefix_ + name;
  p.shape = std::move(shape);
  p.init = init;
  p.role = role;
  p.block = block_;
  p.quantum = quantum;
  return ctx_.parameter(p);
}

Linear Declare::linear(const std::string& name, int64_t out, int64_t in, Role role, int64_t quantum) const {
  return linear(name, out, in, Init::uniform(std::sqrt(6.0 / static_cast<double>(in + out))), role, quantum);
}

// The bias of a ROW linear is added once, to the sum of the parts.
Linear Declare::linear(const std::string& name, int64_t out, int64_t in, Init weight, Role role,
                       int64_t quantum) const {
  const bool split = role == Role::column;
  return {parameter(name + ".weight", {out, in}, weight, role, quantum),
          parameter(name + ".bias", {out}, Init::zeros(), split ? role : Role::whole, split ? quantum : 1)};
}

Norm Declare::norm(const std::string& name, int64_t size) const {
  return {parameter(name + ".weight", {size}, Init::ones()),
          parameter(name + ".bias", {size}, Init::zeros())};
}

Tensor Norm::operator()(const Ctx& ctx, const Tensor& x, double eps) const {
  const auto type = wide(x);
  return at::layer_norm(x.to(type), {x.size(-1)}, ctx.value(weight).to(type), ctx.value(bias).to(type), eps)
      .to(x.scalar_type());
}

Tensor norm_across_heads(const Ctx& ctx, const Tensor& x, kinora_param weight, int64_t width, double eps) {
  if (!weight) return x;
  const Tensor w = x.to(wide(x));
  const Tensor mean = ctx.total(w.square().sum(-1, true)) / static_cast<double>(width);
  return (w * at::rsqrt(mean + eps)).to(x.scalar_type()) * ctx.value(weight).to(x.scalar_type());
}

}  // namespace kinora::wan
