// The built optimizers, on leaves of a test's own.
#pragma once
#include <string>
#include <vector>

#include "plugins/jobs/training/optimizer.hpp"
#include "tests/support/plugins.hpp"

namespace kinora::test {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};

class BuiltOptimizer : public core::Optimizer {
 public:
  BuiltOptimizer(const std::string& id, const core::json& given, const core::Parameters& parameters,
                 std::vector<core::Leaf>& leaves, double weight_decay)
      : BuiltOptimizer(core::or_throw(plugins().open(id)), given, parameters, leaves, weight_decay) {}

 private:
  BuiltOptimizer(const core::Component& component, const core::json& given,
                 const core::Parameters& parameters, std::vector<core::Leaf>& leaves, double weight_decay)
      : Optimizer(component, core::or_throw(core::Options::make(*component.spec, given)), parameters, leaves,
                  core::usual_decay(weight_decay)) {}
};

class AdamW : public BuiltOptimizer {
 public:
  AdamW(const core::Parameters& parameters, std::vector<core::Leaf>& leaves, const AdamWOptions& o = {})
      : BuiltOptimizer("optimizer/adamw", {{"beta1", o.beta1}, {"beta2", o.beta2}, {"eps", o.eps}},
                       parameters, leaves, o.weight_decay) {}
};

// A parameter that is in one process.
inline core::Parameter parameter(const std::string& name, std::vector<int64_t> shape,
                                 uint32_t role = KINORA_ROLE_WHOLE) {
  core::Parameter p;
  p.name = name;
  p.shape = shape;
  p.role = role;
  p.parts = {shape.empty() ? 1 : shape[static_cast<size_t>(p.dim())]};
  return p;
}

// Parameter number `id` as its own leaf.
inline core::Leaf leaf_of(const core::Parameters& all, kinora_param id, at::Tensor t) {
  const auto& p = all[static_cast<size_t>(id - 1)];
  t.set_requires_grad(!p.frozen);
  return {p.name, t, p.frozen, false, {{id, 0, p.numel(), 0}}};
}

}  // namespace kinora::test
