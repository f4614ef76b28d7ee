#include "core/torch/context/lora_link.hpp"

#include <cmath>
#include <set>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "core/suggest.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

LoraLink::LoraLink(LoraOptions options) : Link(kLoraLevel), options_(std::move(options)) {
  skip_inherited<LoraLink>();
  if (options_.rank < 1) raise(KINORA_INVALID, "lora: rank {} is not above 0", options_.rank);
  if (options_.dropout != 0)
    raise(KINORA_UNSUPPORTED, "lora: dropout {} is not implemented; use 0", options_.dropout);
}

// A starts as PEFT's (Kaiming uniform with a = sqrt 5: within 1 / sqrt(in)), B at zero: the adapted model
// starts as the model.
kinora_param LoraLink::parameter(const kinora_param_spec& given) {
  auto base = given;
  base.frozen = 1;
  const auto weight = next.parameter(base);
  const std::string module = given.ndim == 2 ? module_of(given.name) : "";
  if (module.empty()) return weight;
  modules_.push_back(module);
  if (!options_.is_target(module)) return weight;

  const auto half = [&](const std::string& name, std::vector<int64_t> shape, uint32_t role, uint32_t init,
                        double a) {
    auto s = given;  // block, and for the half that is cut like the weight: quantum and parts
    s.name = name.c_str();
    s.shape = shape.data();
    s.role = role;
    s.init = init;
    s.a = a;
    s.frozen = 0;
    if (role == KINORA_WHOLE) s.quantum = 1, s.n_parts = 0, s.parts = nullptr;
    return next.parameter(s);
  };
  const int64_t out = given.shape[0], in = given.shape[1];
  const auto a =
      half(lora_a(module), {options_.rank, in}, given.role == KINORA_ROW ? KINORA_ROW : KINORA_WHOLE,
           KINORA_INIT_UNIFORM, 1 / std::sqrt(static_cast<double>(in)));
  const auto b = half(lora_b(module), {out, options_.rank},
                      given.role == KINORA_COLUMN ? KINORA_COLUMN : KINORA_WHOLE, KINORA_INIT_CONSTANT, 0);
  pairs_[weight] = {a, b};
  return weight;
}

at::Tensor LoraLink::linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  const auto y = next.linear(x, w, b, seq);
  const auto pair = pairs_.find(w);
  if (pair == pairs_.end()) return y;
  const auto h = next.linear(x, pair->second.a, 0, seq);
  return at::add(y, next.linear(h, pair->second.b, 0, seq), options_.scale());
}

void LoraLink::ready() {
  if (!pairs_.empty()) return;
  std::set<std::string> ends;
  for (const auto& m : modules_) ends.insert(m.substr(m.rfind('.') + 1));
  const std::string wanted =
      options_.pattern.empty() ? fmt::format("{}", fmt::join(options_.targets, ", ")) : options_.pattern;
  raise(KINORA_INVALID, "lora: no linear layer is '{}'{}", wanted,
        did_you_mean_or_list(options_.targets.empty() ? "" : options_.targets[0], {ends.begin(), ends.end()},
                             "their names end in"));
}

}  // namespace kinora::core
