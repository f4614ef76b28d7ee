#include <map>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include "core/base/suggest.hpp"
#include "core/plugin/opening.hpp"
#include "core/runtime/call.hpp"
#include "core/torch/apply/mixture.hpp"
#include "core/torch/apply/tools.hpp"
#include "core/torch/chain/chain.hpp"
#include "core/torch/network/instances.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/network/score_instance.hpp"
#include "core/torch/network/tokenizer.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "host/apply/apply.hpp"
#include "host/weights/weights.hpp"
#include "kinora/abi/precision.h"
#include "kinora/aten.hpp"
#include "kinora/context.hpp"

namespace kinora::core {
namespace {

const at::Tensor& need(const NamedTensors& in, const std::string& name, const ApplyRequest& request) {
  const auto it = in.find(name);
  if (it != in.end()) return it->second;
  std::string given;
  for (const auto& [n, t] : in) given += (given.empty() ? "" : ", ") + n;
  throw Error(KINORA_ERROR_INVALID, request.inputs.string() + " has no tensor '" + name +
                                        "' (it has: " + given + "); kinora plugins inspect " + request.id +
                                        " lists its inputs");
}

// float64 if any input is; the parameters are then float64 too.
at::ScalarType dtype_of(const NamedTensors& in) {
  return std::any_of(in.begin(), in.end(),
                     [](const auto& t) { return t.second.scalar_type() == at::kDouble; })
             ? at::kDouble
             : at::kFloat;
}

// The requested method, or the first that a component of this kind supports.
std::string method_of(Runtime& runtime, const ApplyRequest& request) {
  std::vector<std::string> known;
  for (const auto& m : apply_methods(*or_throw(runtime.registry().find(request.id)))) known.push_back(m.name);
  if (request.method.empty()) return known.at(0);
  if (std::find(known.begin(), known.end(), request.method) != known.end()) return request.method;
  std::string list;
  for (const auto& k : known) list += (list.empty() ? "" : ", ") + k;
  throw Error(KINORA_ERROR_INVALID, request.id + " has no method '" + request.method + "'" +
                                        did_you_mean(request.method, known) + "; methods: " + list);
}

// Copies of the request's inputs, so that they can be written and given gradients. A name that the method
// does not take is an error: a misspelt `text` would otherwise give the unconditional result.
NamedTensors read_inputs(Runtime& runtime, const ApplyRequest& request, const std::string& method) {
  const auto known = apply_takes(*or_throw(runtime.registry().find(request.id)), method);
  NamedTensors out;
  for (const auto& [name, tensor] : read_tensors(request.inputs)) {
    out[name] = tensor.clone();
    if (known.empty() || std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (name == "grad_output")
      throw Error(KINORA_ERROR_INVALID,
                  request.inputs.string() +
                      ": grad_output is for --method gradient of a model; leave it out for " + method);
    const std::string hint = did_you_mean(name, known);
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("{}: {} takes no tensor '{}'{} it takes: {}", request.inputs.string(), request.id,
                            name, hint.empty() ? ";" : hint, fmt::join(known, ", ")));
  }
  return out;
}

json shape_json(const NamedTensors& tensors) {
  json out = json::object();
  for (const auto& [name, t] : tensors)
    out[name] = {{"shape", t.sizes().vec()}, {"dtype", c10::toString(t.scalar_type())}};
  return out;
}

// Writes the tensors if a file is requested, and describes them.
ApplyResult finish(const ApplyRequest& request, const NamedTensors& out, json extra = json::object()) {
  NamedTensors plain;
  for (const auto& [name, t] : out)
    if (t.defined()) plain[name] = t.detach().contiguous();
  if (!request.out.empty()) write_tensors(request.out, plain);
  extra["tensors"] = shape_json(plain);
  if (!request.out.empty()) extra["file"] = request.out.string();
  return {std::move(extra)};
}

// N: Model or Tokenizer.
template <class N>
std::unique_ptr<N> network_of(Runtime& runtime, const ApplyRequest& request, at::ScalarType dtype) {
  const Options options = apply_options(runtime, request);
  ChainOptions chain;
  chain.seed = static_cast<uint64_t>(request.seed);
  chain.dtype = dtype;
  chain.may_stop = true;
  const Component component = open_component(runtime.registry(), {}, request.id);
  if (!request.weights.empty()) {  // reports damage and misfits before memory is allocated
    require_as_listed({request.weights}, *component.spec);
    ChainOptions shapes = chain;
    shapes.device = at::kMeta;
    N(component, options, shapes).require_weights({request.weights});
    chain.blank = true;
  }
  auto network = std::make_unique<N>(component, options, chain);
  if (!request.weights.empty()) network->load(request.weights);
  return network;
}

ApplyResult apply_tokenizer(Runtime& runtime, const ApplyRequest& request) {
  const std::string method = method_of(runtime, request);
  const NamedTensors in = read_inputs(runtime, request, method);
  const at::NoGradGuard off;
  const auto tokenizer = network_of<Tokenizer>(runtime, request, dtype_of(in));
  Call call;
  const kinora_run run = run_of(call);
  NamedTensors out;
  if (method != "decode")
    out["latent"] = tokenizer->encode(need(in, "video", request), &out["posterior"], &run);
  if (method == "decode") out["video"] = tokenizer->decode(need(in, "latent", request), &run);
  if (method == "encode_decode") out["video"] = tokenizer->decode(out["latent"], &run);
  return finish(request, out, {{"parameters", tokenizer->numel()}});
}

ApplyResult apply_model(Runtime& runtime, const ApplyRequest& request) {
  const std::string method = method_of(runtime, request);
  NamedTensors in = read_inputs(runtime, request, method);
  const auto model = network_of<Model>(runtime, request, dtype_of(in));
  const auto& outputs = or_throw(runtime.registry().find(request.id))->outputs;
  if (method == "forward") {
    const at::NoGradGuard off;
    NamedTensors out;
    const auto made = model->forward(in);
    for (size_t i = 0; i < made.size(); ++i) out[outputs[i].name] = made[i];
    return finish(request, out, {{"parameters", model->numel()}});
  }
  const at::Tensor weight = need(in, "grad_output", request);
  in.erase("grad_output");
  for (auto& [name, t] : in)
    if (t.is_floating_point()) t.set_requires_grad(true);
  const at::Tensor output = model->forward(in).at(0);
  output.backward(weight);
  NamedTensors out{{"output", output}};
  for (const auto& [name, t] : in)
    if (t.grad().defined()) out["grad." + name] = t.grad();
  auto& chain = model->chain();
  std::vector<at::Tensor> gradients;
  for (const auto& leaf : chain.leaves())
    gradients.push_back(leaf.tensor.grad().defined() ? leaf.tensor.grad() : at::zeros_like(leaf.tensor));
  for (auto& [name, t] : assemble(chain.parameters(), chain.leaves(), gradients))
    out["grad.param." + name] = t;
  return finish(request, out, {{"parameters", model->numel()}});
}

ApplyResult apply_loss(Runtime& runtime, const ApplyRequest& request) {
  const std::string method = method_of(runtime, request);
  const NamedTensors in = read_inputs(runtime, request, method);
  const LossInstance loss(open_component(runtime.registry(), {}, request.id),
                          apply_options(runtime, request));
  return finish(request, loss.evaluate(in));
}

ApplyResult apply_sampler(Runtime& runtime, const ApplyRequest& request) {
  const std::string method = method_of(runtime, request);
  const NamedTensors in = read_inputs(runtime, request, method);
  const at::NoGradGuard off;
  Mixture mixture(need(in, "mean", request), need(in, "std", request), need(in, "weight", request));
  const SamplerInstance sampler(open_component(runtime.registry(), {}, request.id),
                                apply_options(runtime, request));
  Call call{static_cast<uint64_t>(request.seed)};
  const kinora_run run = run_of(call);
  const at::Tensor samples =
      sampler.sample(mixture.abi(sampler.mix()), mixture.noise(need(in, "noise", request)), run);
  return finish(request, {{"samples", samples}},
                {{"nfe", mixture.calls()}, {"sigmas", sampler.levels()}, {"visited", mixture.sigmas()}});
}

ApplyResult apply_score(Runtime& runtime, const ApplyRequest& request) {
  const NamedTensors in = read_inputs(runtime, request, method_of(runtime, request));
  ScoreInstance score(open_component(runtime.registry(), {}, request.id), apply_options(runtime, request));
  Call call;
  const kinora_run run = run_of(call);
  score.update(in, &run);
  NamedTensors out{{"state", score.state()}};
  json numbers = json::object();
  for (const auto& [name, number] : score.compute())
    numbers[name] = number, out[name] = at::full({}, number, at::kDouble);
  if (const at::Tensor& state = out["state"]; state.numel() <= 1 << 14)  // a covariance has millions
    numbers["state"] =
        std::vector<double>(state.data_ptr<double>(), state.data_ptr<double>() + state.numel());
  return finish(request, out, std::move(numbers));
}

// A matrix of an input file; its values are finite.
const at::Tensor& need_matrix(const NamedTensors& in, const std::string& name, const ApplyRequest& request) {
  const at::Tensor& x = need(in, name, request);
  if (x.dim() != 2 || !x.is_floating_point() || x.numel() == 0)
    raise(KINORA_ERROR_INVALID, "{}: {} is {} of {}; a matrix of floating-point numbers is expected",
          request.inputs.string(), name, c10::str(x.sizes()), c10::toString(x.scalar_type()));
  if (const auto bad = x.numel() - at::isfinite(x).sum().item<int64_t>(); bad > 0)
    raise(KINORA_ERROR_INVALID, "{}: {} of the {} values of {} are infinite or NaN", request.inputs.string(),
          bad, x.numel(), name);
  return x;
}

// The results of finite matrices. Throws Error(KINORA_ERROR_DATA) if their numbers are too large for a layer.
NamedTensors finite(NamedTensors out, const ApplyRequest& request) {
  for (const auto& [name, t] : out)
    if (const auto bad = t.numel() - at::isfinite(t).sum().item<int64_t>(); bad > 0)
      raise(KINORA_ERROR_DATA,
            "{}: {} of the {} values of {} are infinite or NaN: its numbers are too large for a sum, or for "
            "the "
            "Hadamard transform, in float32; divide them by a power of two",
            request.inputs.string(), bad, t.numel(), name);
  return out;
}

// A layer x w^T in the middle of a model of 20 blocks, behind the precision's link, with its gradients.
NamedTensors linear_layer(const NamedTensors& in, const ApplyRequest& request, const kinora_link* link,
                          uint64_t seed) {
  const at::Tensor x = need_matrix(in, "x", request), weight = need_matrix(in, "weight", request);
  if (x.size(1) != weight.size(1))
    raise(KINORA_ERROR_INVALID, "{}: x is {} and weight {}; x [M, K] needs a weight [N, K]",
          request.inputs.string(), c10::str(x.sizes()), c10::str(weight.sizes()));
  Chain chain({.seed = seed, .dtype = dtype_of(in)},
              link ? std::vector{link} : std::vector<const kinora_link*>{});
  const kinora::Context<at::Tensor> context(chain.head());
  constexpr int64_t kBlocks = 20;
  const kinora_param w =
      context.parameter({.name = "weight", .shape = weight.sizes().vec(), .block = kBlocks / 2});
  context.parameter({.name = "end", .shape = {1}, .block = kBlocks + 1});
  chain.ready();
  at::Tensor leaf = chain.leaves().at(0).tensor;
  leaf.detach().copy_(weight);
  chain.begin({.struct_size = sizeof(kinora_pass), .seed = seed});
  const at::Tensor input = x.unsqueeze(0).requires_grad_(true);
  kinora_seq seq = 0;
  const at::Tensor tokens = context.sequence(input, x.size(0), 1, 1, seq);
  const at::Tensor output = context.linear(tokens, w, 0, seq)[0];
  if (!in.count("grad_output")) return finite({{"output", output}}, request);
  const at::Tensor gradient = need_matrix(in, "grad_output", request);
  if (gradient.sizes() != output.sizes())
    raise(KINORA_ERROR_INVALID, "{}: grad_output is {}, and the output {}", request.inputs.string(),
          c10::str(gradient.sizes()), c10::str(output.sizes()));
  output.backward(gradient.to(output.scalar_type()));
  return finite({{"output", output}, {"grad_input", input.grad()[0]}, {"grad_weight", leaf.grad()}}, request);
}

ApplyResult apply_precision(Runtime& runtime, const ApplyRequest& request) {
  const std::string method = method_of(runtime, request);
  const NamedTensors in = read_inputs(runtime, request, method);
  const Component component = open_component(runtime.registry(), {}, request.id);
  const auto& api = component.table<kinora_precision>();
  const Options options = apply_options(runtime, request);
  const auto self = instance_of<kinora_precision>(component, options);
  if (method == "linear") {
    for (const char* name : {"attention", "until"})
      if (const auto* o = component.spec->option(name); o && options.values().at(name) != o->default_value)
        raise(KINORA_ERROR_INVALID,
              "{} changes nothing in `kinora apply --method linear`, a layer without attention and without "
              "steps; remove it",
              name);
    const kinora_link* link = nullptr;
    check(api.link(self.get(), &link));
    return finish(request, linear_layer(in, request, link,
                                        static_cast<uint64_t>(options.values().value("seed", request.seed))));
  }
  std::vector<kinora_tensor> out(component.spec->outputs.size(), nullptr);
  check(api.quantize(self.get(), handle(need(in, "x", request)), out.data(), out.size()));
  NamedTensors named;
  for (size_t i = 0; i < out.size(); ++i) named[component.spec->outputs[i].name] = adopt<at::Tensor>(out[i]);
  return finish(request, named);
}

}  // namespace

ApplyResult apply_tensors(Runtime& runtime, const ApplyRequest& request) {
  static const std::map<std::string, ApplyResult (*)(Runtime&, const ApplyRequest&)> kinds{
      {"tokenizer", apply_tokenizer}, {"model", apply_model}, {"loss", apply_loss},
      {"sampler", apply_sampler},     {"score", apply_score}, {"precision", apply_precision}};
  return kinds.at(or_throw(runtime.registry().find(request.id))->kind)(runtime, request);
}

}  // namespace kinora::core
