// Checks of models: one forward of small inputs in float64, and its backward.
#include <algorithm>
#include <cmath>
#include <set>

#include "apps/validate/trial_chain.hpp"
#include "apps/validate/trial_recompute.hpp"

namespace kinora {
namespace model_checks_of {
namespace {

// The inputs of a denoiser or of a text encoder (abi/model.h); any other model gets its first input. The rest
// are conditions that a model works without.
TrialInputs inputs_of(const PluginTrial& t, const core::Options& options) {
  static const std::map<std::string, int64_t> sizes{{"H", 4}, {"W", 4}, {"L", 3}, {"N", 3}},
      of_video{{"T", 3}, {"H", 24}, {"W", 24}};
  if (t.spec.inputs.empty()) throw Skipped{"its manifest names no inputs"};
  const std::string first = t.spec.inputs[0].name;
  const std::set<std::string> given = first == "latent" ? std::set<std::string>{first, "timestep", "text"}
                                      : first == "input_ids" ? std::set<std::string>{first, "attention_mask"}
                                                             : std::set{first};
  TrialInputs out;
  uint64_t seed = t.subject.seed;
  for (const auto& spec : t.spec.inputs) {
    if (!given.count(spec.name) || !spec.is_in_use(options.values())) continue;
    const Tensor x = trial_input(spec, options, spec.name == "video" ? of_video : sizes, ++seed);
    out[spec.name] = spec.name == "attention_mask" ? full_like(x, 1.0)
                     : spec.name == "timestep"     ? op("aten::sigmoid", "", {x})
                                                   : x;
  }
  return out;
}

class Model {
 public:
  explicit Model(const PluginTrial& t, bool is_meta = false,
                 const std::vector<const kinora_link*>& links = {})
      : t_(t), options_(t.options()), network_(t, options_, is_meta, links), usual_(inputs_of(t, options_)) {
    if (is_meta)
      for (auto& [name, x] : usual_) x = on_meta(x);
  }

  const TrialInputs& usual() const { return usual_; }
  TrialChain& chain() { return network_.chain; }

  // The status; outputs in the manifest's order.
  int32_t forward(const TrialInputs& in, std::vector<Tensor>& made) {
    network_.chain.begin(!GradMode::enabled());
    const auto given = named(in);
    std::vector<kinora_tensor> out(std::max<size_t>(1, t_.spec.outputs.size()), nullptr);
    const int32_t status = network_.api.forward(network_.self(), network_.chain.context(), given.data(),
                                                given.size(), out.data(), out.size());
    for (auto* h : out) made.push_back(Tensor::adopt(h));
    return status;
  }
  // The first output. Throws Error, or Skipped if the inputs are none of this model.
  Tensor output(const TrialInputs& in) {
    std::vector<Tensor> made;
    require_taken(forward(in, made), "forward() of the inputs in plugin.toml's shapes");
    if (!made[0].defined())
      throw Error(KINORA_ERROR_FAILED, "forward() returned KINORA_OK without its first output");
    return made[0];
  }
  Tensor output() { return output(usual_); }

 private:
  const PluginTrial& t_;
  core::Options options_;
  TrialNetwork<kinora_model> network_;
  TrialInputs usual_;
};

std::string check_same_output(PluginTrial& t) {
  const GradMode off(false);
  Model one(t), other(t);
  t.now("forward()");
  const auto first = numbers(one.output());
  for (const double v : first)
    if (!std::isfinite(v))
      throw Error(KINORA_ERROR_FAILED, fmt::format("the output of ordinary inputs has the number {}", v));
  if (numbers(one.output()) != first)
    throw Error(KINORA_ERROR_FAILED,
                "forward() of the same inputs gives other bits the second time; keep no state between calls, "
                "and take random numbers from the context's noise()");
  if (numbers(other.output()) != first)
    throw Error(KINORA_ERROR_FAILED,
                "forward() of the same inputs gives other bits by another instance; "
                "instances share nothing but the context's parameters");
  return "";
}

// Where an error of the backward is seen best: the largest element of a gradient.
size_t largest(const std::vector<double>& g) {
  const auto at =
      std::max_element(g.begin(), g.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  return static_cast<size_t>(at - g.begin());
}

// Inputs and parameters from now on require a gradient; some of many parameters.
std::vector<std::pair<std::string, Tensor>> variables_of(Model& model, TrialInputs& in) {
  std::vector<std::pair<std::string, Tensor>> by;
  for (auto& [name, x] : in)
    if (x.dtype() == KINORA_DTYPE_FLOAT64 && name != "timestep" && x.numel() > 0) {
      x = x + 0.0;
      by.emplace_back(name, x);
    }
  auto leaves = model.chain().leaves();
  std::erase_if(leaves, [](const auto& leaf) { return leaf.frozen || leaf.tensor.numel() == 0; });
  constexpr size_t kMost = 8;  // parameters that are tried, the first and the last included
  for (size_t i = 0; i < std::min(kMost, leaves.size()); ++i) {
    const auto& leaf = leaves[leaves.size() <= kMost ? i : i * (leaves.size() - 1) / (kMost - 1)];
    by.emplace_back(leaf.name, leaf.tensor);
  }
  for (const auto& one : by) check(tensors_api().set_requires_grad(one.second.get(), 1));
  return by;
}

std::vector<std::vector<double>> gradients_of(PluginTrial& t, const Tensor& output,
                                              const std::vector<std::pair<std::string, Tensor>>& by) {
  std::vector<Tensor> variables;
  for (const auto& one : by) variables.push_back(one.second);
  t.now("the backward of its output");
  return gradients(output, normal(t.subject.seed, output.sizes()).to(output.dtype()), variables);
}

std::string check_gradients(PluginTrial& t) {
  Model model(t);
  TrialInputs in = model.usual();
  const auto by = variables_of(model, in);
  t.now("forward() with gradients");
  const Tensor output = model.output(in), weight = normal(t.subject.seed, output.sizes()).to(output.dtype());
  const auto found = gradients_of(t, output, by);
  const GradMode off(false);
  t.now("forward() for finite differences");
  double worst = 0;
  for (size_t i = 0; i < by.size(); ++i) {
    const size_t at = largest(found[i]);
    worst = std::max(worst, require_slope(fmt::format("its output by {}[{}]", by[i].first, at), found[i][at],
                                          by[i].second.data<double>() + at,
                                          [&] { return (model.output(in) * weight).sum().item(); }));
  }
  return fmt::format("{} inputs and parameters within {:.1g}", by.size(), worst);
}

std::string check_recompute(PluginTrial& t) {
  const TrialRecompute recompute(t);
  Model plain(t), again(t, false, recompute.links());
  std::vector<std::string> names;
  std::vector<std::vector<double>> found[2];
  for (size_t i = 0; i < 2; ++i) {
    Model& model = i == 0 ? plain : again;
    TrialInputs in = model.usual();
    const auto by = variables_of(model, in);
    t.now(i == 0 ? "forward()" : "forward() whose blocks run again");
    const Tensor output = model.output(in);
    found[i] = gradients_of(t, output, by);
    found[i].push_back(numbers(output));
    names.clear();
    for (const auto& one : by) names.push_back("the gradient by " + one.first);
  }
  names.push_back("the output");
  // Not to the bit: what several blocks share gets its gradient as a sum in another order.
  for (size_t i = 0; i < names.size(); ++i)
    if (const double off = relative_error(found[1][i], found[0][i]); !(off <= 1e-12))
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("{} differs by {:.2g} of its size when its blocks run again in the backward; a "
                              "block reads its inputs and what stays until release()",
                              names[i], off));
  return "";
}

std::string check_meta(PluginTrial& t) {
  const GradMode off(false);
  Model shapes(t, true);
  std::vector<Tensor> made, values;
  const auto why =
      answer("forward() on the meta device", [&] { return shapes.forward(shapes.usual(), made); });
  if (why.find("Meta kernel") != why.npos) throw Skipped{"libtorch lacks one of its operators there: " + why};
  if (!why.empty()) {
    Model plain(t);
    t.now("forward()");
    plain.output();  // Skipped if the inputs are none of this model
    throw Error(KINORA_ERROR_FAILED,
                "forward() on the meta device, where tensors have shapes and no values: " + why +
                    "; read no number of a tensor on the host");
  }
  try {
    Model model(t);
    require_ok([&] { return model.forward(model.usual(), values); }, "forward()");
  } catch (const Skipped& s) {
    return "not compared with the CPU: " + s.why;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const auto text = [&](const Tensor& x) {
      return x.defined() ? fmt::format("{} of dtype {}", shape_text(x.sizes()), x.dtype()) : "nothing";
    };
    if (text(made[i]) != text(values[i]))
      throw Error(KINORA_ERROR_FAILED, fmt::format("output {} is {} on the meta device, and {} on the CPU", i,
                                                   text(made[i]), text(values[i])));
  }
  return "";
}

std::string check_handles(PluginTrial& t) {
  require_no_handles(t.subject.plugin->tier, [&] {
    Model model(t);
    t.now("forward()");
    model.output();
    for (const auto& [name, x] : model.usual()) {
      TrialInputs fewer = model.usual();
      fewer.erase(name);
      std::vector<Tensor> made;
      answer("forward() without " + name, [&] { return model.forward(fewer, made); });
    }
  });
  return "";
}

std::string check_inputs(PluginTrial& t) {
  const GradMode off(false);
  Model model(t);
  with_hostile_inputs(model.usual(), [&](const std::string& what, const TrialInputs& in) {
    std::vector<Tensor> made;
    answer("forward() " + what, [&] { return model.forward(in, made); });
  });
  return "";
}

constexpr Check kChecks[] = {
    {"same-output", "model", "the same inputs and seed give the same bits, again and by another instance",
     false, nullptr, check_same_output},
    {"model-gradients", "model", "gradients by inputs and parameters equal finite differences in float64",
     false, nullptr, check_gradients},
    {"recompute", "model",
     "blocks that run again in the backward (parallel/recompute) give the same output and gradients", false,
     nullptr, check_recompute},
    {"meta", "model", "it reads no number of a tensor: shapes on the meta device are those on the CPU", false,
     nullptr, check_meta},
    {"model-leaks", "model", "every handle to a tensor is released, also after an error", false, nullptr,
     check_handles},
    {"model-inputs", "model",
     "inputs that are missing, empty, strided, zero-dimensional, bf16 or of another shape get an answer",
     false, nullptr, check_inputs}};

}  // namespace
}  // namespace model_checks_of

std::span<const Check> model_checks() { return model_checks_of::kChecks; }

}  // namespace kinora
