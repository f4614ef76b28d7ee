#include "host/apply/apply.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace kinora::core {

Options apply_options(Runtime& runtime, const ApplyRequest& request) {
  const auto* spec = or_throw(runtime.registry().find(request.id));
  return or_throw(Options::make(*spec, request.options, std::filesystem::current_path()));
}

namespace {

std::string names(const std::vector<TensorSpec>& tensors) {
  std::string out;
  for (const auto& t : tensors) out += (out.empty() ? "" : ", ") + t.name;
  return out;
}

TensorSpec tensor(const char* name, const char* shape, const char* help) {
  TensorSpec out;
  out.name = name;
  out.shape = shape;
  out.dtype = "float";
  out.help = help;
  return out;
}

}  // namespace

std::vector<ApplyMethod> apply_methods(const ComponentSpec& c) {
  const std::string in = names(apply_inputs(c)), out = names(apply_outputs(c));
  if (c.kind == "tokenizer")
    return {{"encode", in, out + ", posterior"}, {"decode", out, in}, {"encode_decode", in, in}};
  if (c.kind == "model")
    return {
        {"forward", in, out},
        {"gradient", in + ", grad_output", out + ", grad.INPUT of each, grad.param.NAME of each parameter"}};
  if (c.kind == "loss") return {{"evaluate", in, out}};
  if (c.kind == "sampler") return {{"sample", in, out}};
  if (c.kind == "score") return {{"compute", in, out}};
  if (c.kind == "precision")
    return {{"quantize", in, out},
            {"linear", "x, weight, grad_output", "output; with grad_output: grad_input, grad_weight"}};
  return {};
}

std::vector<TensorSpec> apply_inputs(const ComponentSpec& c) {
  if (c.kind != "sampler") return c.inputs;
  return {
      tensor("mean", "[K, D]", "means of the Gaussians of a mixture, whose exact denoiser the sampler calls"),
      tensor("std", "[K]", "standard deviation of each Gaussian"),
      tensor("weight", "[K]", "weights of the Gaussians, with any sum above 0"),
      tensor("noise", "[N, D]", "standard normal; the sampler scales it to its first noise level")};
}

std::vector<TensorSpec> apply_outputs(const ComponentSpec& c) {
  if (c.kind != "sampler") return c.outputs;
  return {tensor("samples", "[N, D]", "float64")};
}

std::vector<std::string> apply_takes(const ComponentSpec& c, const std::string& method) {
  if (c.kind == "precision" && method == "linear") return {"x", "weight", "grad_output"};
  std::vector<std::string> out;
  for (const auto& t : apply_inputs(c)) out.push_back(t.name);
  if (out.empty()) return out;
  // The same file works for both directions.
  if (c.kind == "tokenizer")
    for (const auto& t : c.outputs) out.push_back(t.name);
  if (c.kind == "model" && method == "gradient") out.emplace_back("grad_output");
  // The model's output, under the model's own name.
  if (c.kind == "loss" && std::find(out.begin(), out.end(), "prediction") != out.end())
    out.emplace_back("output");
  return out;
}

bool has_weights(const ComponentSpec& c) { return c.kind == "model" || c.kind == "tokenizer"; }

}  // namespace kinora::core
