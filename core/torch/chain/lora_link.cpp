#include "core/torch/chain/lora_link.hpp"

#include <cmath>
#include <set>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "core/base/suggest.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

LoraLink::LoraLink(LoraOptions options, const SampleKeys& keys)
    : Link(kLoraLevel), options_(std::move(options)), keys_(keys) {
  skip_inherited<LoraLink>();
  if (options_.rank < 1) raise(KINORA_ERROR_INVALID, "lora: rank {} is not above 0", options_.rank);
  if (!(options_.dropout >= 0 && options_.dropout < 1))
    raise(KINORA_ERROR_INVALID, "lora: dropout {} is not in [0, 1)", options_.dropout);
}

// A is initialised as in PEFT (Kaiming uniform with a = sqrt 5: within 1 / sqrt(in)) and B with zeros, so the
// adapted model starts equal to the model.
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
    auto s = given;  // keeps block, and for the half that is cut like the weight also quantum and parts
    s.name = name.c_str();
    s.shape = shape.data();
    s.role = role;
    s.init = init;
    s.init_scale = a;
    s.frozen = 0;
    if (role == KINORA_ROLE_WHOLE) s.quantum = 1, s.n_parts = 0, s.parts = nullptr;
    return next.parameter(s);
  };
  const int64_t out = given.shape[0], in = given.shape[1];
  const auto a = half(lora_a(module), {options_.rank, in},
                      given.role == KINORA_ROLE_ROW ? KINORA_ROLE_ROW : KINORA_ROLE_WHOLE,
                      KINORA_INIT_UNIFORM, 1 / std::sqrt(static_cast<double>(in)));
  const auto b = half(lora_b(module), {out, options_.rank},
                      given.role == KINORA_ROLE_COLUMN ? KINORA_ROLE_COLUMN : KINORA_ROLE_WHOLE,
                      KINORA_INIT_CONSTANT, 0);
  pairs_[weight] = {a, b, in, given.role == KINORA_ROLE_ROW ? Place::inner : Place::stream,
                    "lora.dropout." + module};
  return weight;
}

// Placed as in PEFT: the model's own x W^T sees all of x. A rank or a block that runs again gets the same
// mask, because it is a function of the sample, the token's place, the channel and the module.
at::Tensor LoraLink::dropped(const at::Tensor& x, const Pair& pair, kinora_seq seq) {
  const auto now = pass();
  if (options_.dropout == 0 || now.no_grad || x.is_meta()) return x;
  if (x.size(-1) != pair.in)
    raise(KINORA_ERROR_UNSUPPORTED,
          "{}: {} of the layer's {} input channels are here; with dropout they cannot be split, so leave it "
          "out or train without tensor parallelism",
          pair.key, x.size(-1), pair.in);
  const auto rows = x.reshape({x.dim() > 1 ? x.size(0) : 1, -1, pair.in});
  const auto keys = seq ? keys_.of_tokens(now, next.table(seq, pair.place), rows.size(0))
                        : keys_.of_shared(now, rows.size(0), rows.size(1), pair.key);
  const auto kept = token_uniform(rows, keys.place, now.seed, keys.sample, pair.key).ge(options_.dropout);
  return x * kept.view(x.sizes()).to(x.options()).div_(1 - options_.dropout);
}

at::Tensor LoraLink::linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  const auto y = next.linear(x, w, b, seq);
  const auto pair = pairs_.find(w);
  if (pair == pairs_.end()) return y;
  const auto h = next.linear(dropped(x, pair->second, seq), pair->second.a, 0, seq);
  return at::add(y, next.linear(h, pair->second.b, 0, seq), options_.scale());
}

void LoraLink::ready() {
  if (!pairs_.empty()) return;
  std::set<std::string> ends;
  for (const auto& m : modules_) ends.insert(m.substr(m.rfind('.') + 1));
  const std::string wanted =
      options_.pattern.empty() ? fmt::format("{}", fmt::join(options_.targets, ", ")) : options_.pattern;
  raise(KINORA_ERROR_INVALID, "lora: no linear layer is '{}'{}", wanted,
        did_you_mean_or_list(options_.targets.empty() ? "" : options_.targets[0], {ends.begin(), ends.end()},
                             "their names end in"));
}

}  // namespace kinora::core
