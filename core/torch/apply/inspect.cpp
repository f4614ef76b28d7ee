#include <set>
#include <sstream>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "core/base/suggest.hpp"
#include "core/torch/apply/tools.hpp"
#include "core/torch/network/meter_link.hpp"
#include "core/torch/network/network.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "host/apply/apply.hpp"

namespace kinora::core {
namespace {

// Splits "transformer_blocks.3.attn1.to_q.weight" into "transformer_blocks" and "3": the part before the
// first number, or before the first dot.
std::pair<std::string, std::string> part_of(const std::string& name) {
  std::istringstream in(name);
  std::string before, first;
  for (std::string part; std::getline(in, part, '.');) {
    if (part.find_first_not_of("0123456789") == part.npos) return {before, part};
    if (before.empty()) first = part;
    before += (before.empty() ? "" : ".") + part;
  }
  return {first, ""};
}

json parts_json(const Parameters& parameters) {
  struct Part {
    std::set<std::string> copies;
    int64_t tensors = 0, parameters = 0;
  };
  std::map<std::string, Part> parts;
  std::vector<std::string> order;
  for (const auto& p : parameters) {
    const auto [name, copy] = part_of(p.name);
    if (!parts.count(name)) order.push_back(name);
    auto& part = parts[name];
    part.copies.insert(copy);
    ++part.tensors;
    part.parameters += p.numel();
  }
  json out = json::array();
  for (const auto& name : order) {
    const auto& p = parts[name];
    out.push_back(
        {{"name", name}, {"copies", p.copies.size()}, {"tensors", p.tensors}, {"parameters", p.parameters}});
  }
  return out;
}

json flops_json(const Flops& f) {
  json parts = json::object();
  for (const auto* kind : {&f.linear, &f.attention})
    for (const auto& [name, n] : *kind) {
      const auto part = part_of(name).first;
      parts[part] = parts.value(part, 0.0) + n;
    }
  return {{"linear", f.linear_total()},
          {"attention", f.attention_total()},
          {"convolution", f.convolution},
          {"total", f.total()},
          {"parts", parts}};
}

at::ScalarType dtype_of(const TensorSpec& t) {
  if (t.dtype.find("bool") != t.dtype.npos) return at::kBool;
  return t.dtype.find("int") != t.dtype.npos ? at::kLong : at::kFloat;
}

NamedTensors meta_inputs(const ComponentSpec& spec, const json& given) {
  auto known = spec.inputs;
  if (spec.kind == "tokenizer") known.insert(known.end(), spec.outputs.begin(), spec.outputs.end());
  std::vector<std::string> names;
  for (const auto& t : known) names.push_back(t.name);
  NamedTensors out;
  for (const auto& [name, shape] : given.items()) {
    const auto t = std::find(names.begin(), names.end(), name);
    if (t == names.end())
      raise(KINORA_ERROR_INVALID, "{} takes no input '{}'{}", spec.id, name,
            did_you_mean_or_list(name, names, "inputs"));
    out[name] = at::empty(
        shape.get<std::vector<int64_t>>(),
        at::TensorOptions().device(at::kMeta).dtype(dtype_of(known[static_cast<size_t>(t - names.begin())])));
  }
  return out;
}

json flops_of(const Component& component, const Options& options, const NamedTensors& in) {
  json out = json::object();
  double once = 0;
  const auto add = [&](const char* name, const std::optional<Flops>& f) {
    if (!f) return;
    out[name] = flops_json(*f);
    once += f->total();
  };
  if (component.spec->kind == "model") {
    add("forward", model_flops(component, options, in));
  } else {
    const auto given = [&](const char* name) { return in.count(name) ? in.at(name) : at::Tensor(); };
    const auto [encode, decode] = tokenizer_flops(component, options, given("video"), given("latent"));
    add("encode", encode);
    add("decode", decode);
  }
  out["training_step"] = kTrainingStep * once;
  out["training_step_recompute"] = kTrainingStepRecompute * once;
  return out;
}

}  // namespace

json inspect_component(Runtime& runtime, const json& request) {
  const std::string id = request.at("id");
  const auto& spec = *or_throw(runtime.registry().find(id));
  if (!has_weights(spec))
    raise(KINORA_ERROR_INVALID,
          "{} has no parameters; give a model or a tokenizer. See kinora plugins inspect {}", spec.id,
          spec.id);
  const NamedTensors in = meta_inputs(spec, request.at("inputs"));
  const Options options =
      or_throw(Options::make(spec, request.at("options"), std::filesystem::current_path()));
  const Component component = or_throw(runtime.registry().open(spec.id));
  const auto parameters = parameters_of(component, options);
  int64_t n = 0, trainable = 0;
  for (const auto& p : parameters) n += p.numel(), trainable += p.frozen ? 0 : p.numel();
  json out = {{"component", spec.id},
              {"parameters", n},
              {"trainable", trainable},
              {"tensors", parameters.size()},
              {"bytes", {{"fp32", 4 * n}, {"bf16", 2 * n}, {"fp8", n}}},
              {"parts", parts_json(parameters)}};
  if (!in.empty()) out["flops"] = flops_of(component, options, in);
  return out;
}

}  // namespace kinora::core
