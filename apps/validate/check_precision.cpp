// Checks of precisions: a linear layer behind the chain with the precision's link, and quantize().
#include <cmath>

#include "apps/validate/trial_chain.hpp"
#include "apps/validate/trial_link.hpp"
#include "kinora/abi/precision.h"
#include "kinora/context.hpp"

namespace kinora {
namespace precision_checks_of {
namespace {

constexpr int64_t kRows = 32, kIn = 64,
                  kOut = 48;  // multiples of the groups that formats of few bits scale by
// Four bits have a relative error of about 0.1 on normal numbers; a wrong scale or a lost product has 1.
constexpr double kMostError = 0.3;

class Precision : public TrialInstance<kinora_precision> {
 public:
  using TrialInstance::TrialInstance;

  int32_t dtype() const {
    watch().now("dtype()");
    const int32_t type = api.dtype(self);
    if (type != KINORA_DTYPE_FLOAT32 && type != KINORA_DTYPE_FLOAT64 && type != KINORA_DTYPE_BFLOAT16 &&
        type != KINORA_DTYPE_FLOAT16)
      throw Error(
          KINORA_ERROR_FAILED,
          fmt::format(
              "dtype() returned {}; the residual stream has a KINORA_DTYPE_FLOAT* or KINORA_DTYPE_BFLOAT16",
              type));
    return type;
  }
  std::vector<const kinora_link*> links() const {
    const kinora_link* link = nullptr;
    require_ok([&] { return api.link(self, &link); }, "link()");
    if (link && link->level != KINORA_LEVEL_PRECISION)
      throw Error(KINORA_ERROR_FAILED, fmt::format("its link has level {}; a precision's is {}", link->level,
                                                   KINORA_LEVEL_PRECISION));
    return link ? std::vector{link} : std::vector<const kinora_link*>{};
  }
  int32_t quantize(const Tensor& x, size_t n_out, std::vector<Tensor>& made) const {
    std::vector<kinora_tensor> out(n_out, nullptr);
    const int32_t status = api.quantize(self, x.get(), out.data(), out.size());
    made.clear();
    for (auto* h : out) made.push_back(Tensor::adopt(h));
    return status;
  }
};

// Checks that a sample's result does not depend on the others of its batch, which ranks and microbatches
// divide in other ways, and tokens of zeros stay finite.
void check_samples(PluginTrial& t, const Context<Tensor>& context, kinora_param weight, const Tensor& x,
                   const std::vector<double>& of_both) {
  const GradMode off(false);
  t.now("linear() of its link, of one sample");
  const auto alone = numbers(context.linear(x.narrow(0, 0, 1), weight, 0, 0));
  const std::vector<double> first(of_both.begin(),
                                  of_both.begin() + static_cast<std::ptrdiff_t>(alone.size()));
  constexpr double kSums = 1e-4;  // a product of other sizes may add in another order
  if (const double off_by = relative_error(alone, first); !(off_by <= kSums))
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format(
            "linear() of a sample alone differs by {:.2g} of its size from the same sample in a batch of "
            "two; scales must be of one sample, since ranks and microbatches divide a batch",
            off_by));
  t.now("linear() of its link, of zeros");
  for (const double value : numbers(context.linear(x * 0.0, weight, 0, 0)))
    if (!std::isfinite(value))
      throw Error(KINORA_ERROR_FAILED,
                  "linear() of zeros is not finite; tokens of zeros are padding, so a scale of 0 must not be "
                  "divided by");
}

std::string check_linear(PluginTrial& t) {
  const core::Options options = t.options();
  const Precision precision(t, options);
  const int32_t stream = precision.dtype();
  TrialChain chain({t.subject.seed, stream == KINORA_DTYPE_FLOAT64 ? stream : KINORA_DTYPE_FLOAT32},
                   precision.links());
  const Context<Tensor> context(chain.context());
  const auto declared = [&](const char* name, std::vector<int64_t> shape) {
    return context.parameter({.name = name, .shape = std::move(shape), .init = Init::normal(1)});
  };
  const kinora_param weight = declared("weight", {kOut, kIn}), bias = declared("bias", {kOut});
  chain.ready();
  chain.begin(false);
  const auto leaves = chain.leaves();
  const Tensor x = normal(t.subject.seed, {2, kRows / 2, kIn}).to(stream).detach();
  check(tensors_api().set_requires_grad(x.get(), 1));
  t.now("linear() of its link");
  const Tensor y = context.linear(x, weight, bias, 0);
  const Tensor by = normal(t.subject.seed + 1, {2, kRows / 2, kOut});
  if (y.sizes() != by.sizes() || y.dtype() != stream)
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format("linear() of x {} gives {} of dtype {}; {} of x's dtype {} is expected",
                    shape_text(x.sizes()), shape_text(y.sizes()), y.dtype(), shape_text(by.sizes()), stream));
  t.now("the backward of its link's linear()");
  const std::vector<Tensor> variables{x, leaves[0].tensor, leaves[1].tensor};
  auto found = gradients(y, by.to(stream), variables);
  found.push_back(numbers(y));
  std::vector<Tensor> exact;
  for (const auto& v : variables) {
    exact.push_back(v.detach().to(KINORA_DTYPE_FLOAT64) + 0.0);
    check(tensors_api().set_requires_grad(exact.back().get(), 1));
  }
  const Tensor expected = linear(exact[0], exact[1], exact[2]);
  auto by_float64 = gradients(expected, by, exact);
  by_float64.push_back(numbers(expected));
  static const char* names[] = {"the gradient by x", "the gradient by the weight", "the gradient by the bias",
                                "the result"};
  std::string said;
  for (const size_t i : {3, 0, 1, 2}) {
    const double off = relative_error(found[i], by_float64[i]);
    if (!(off <= kMostError))
      throw Error(KINORA_ERROR_FAILED, fmt::format("{} of linear() differs by {:.2g} of its size from that "
                                                   "in float64; {} or less is expected of any format",
                                                   names[i], off, kMostError));
    said += fmt::format("{}{} within {:.1g}", said.empty() ? "" : ", ", names[i], off);
  }
  chain.begin(true);
  check_samples(t, context, weight, x.detach(), numbers(context.linear(x.detach(), weight, 0, 0)));
  return said;
}

std::string check_quantize(PluginTrial& t) {
  const core::Options options = t.options();
  const Precision precision(t, options);
  const Tensor x = normal(t.subject.seed, {kRows, kIn});
  std::vector<Tensor> made;
  int32_t status = KINORA_OK;
  answer("quantize()", [&] { return status = precision.quantize(x, t.spec.outputs.size(), made); });
  require_taken(status, "quantize() of x " + shape_text(x.sizes()));
  for (size_t i = 0; i < made.size(); ++i) {
    const auto& spec = t.spec.outputs[i];
    if (made[i].defined() != (spec.dtype != "none"))
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("quantize() returns {} '{}', whose dtype in plugin.toml is {}",
                              made[i].defined() ? "a tensor" : "no", spec.name, spec.dtype));
    if (spec.name != "dequantized" || !made[i].defined()) continue;
    const double off = relative_error(numbers(made[i]), numbers(x));
    if (made[i].sizes() != x.sizes() || !(off <= kMostError))
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("dequantized is {} and differs by {:.2g} of its size from x {}; {} or less is "
                              "expected of any format",
                              shape_text(made[i].sizes()), off, shape_text(x.sizes()), kMostError));
  }
  for (const auto& [what, wrong] : hostile_tensors(x)) {
    answer("quantize() of x " + what, [&] { return precision.quantize(wrong, t.spec.outputs.size(), made); });
  }
  return "";
}

// linear() of the link with a bias and without, in a chain that counts what passes.
void call_link(PluginTrial& t, const Precision& precision) {
  const auto links = precision.links();
  if (links.empty()) return;
  const TrialLink counted(links[0]);
  const int32_t stream = precision.dtype();
  TrialChain chain({t.subject.seed, stream == KINORA_DTYPE_FLOAT64 ? stream : KINORA_DTYPE_FLOAT32},
                   {counted.link()});
  const Context<Tensor> context(chain.context());
  const auto declared = [&](const char* name, std::vector<int64_t> shape) {
    return context.parameter({.name = name, .shape = std::move(shape), .init = Init::normal(1)});
  };
  const kinora_param weight = declared("weight", {kOut, kIn}), bias = declared("bias", {kOut});
  chain.ready();
  chain.begin(true);
  const GradMode off(false);
  const Tensor x = normal(t.subject.seed, {2, kRows / 2, kIn}).to(stream);
  t.now("linear() of its link");
  context.linear(x, weight, bias, 0);
  context.linear(x, weight, 0, 0);
}

std::string check_handles(PluginTrial& t) {
  const core::Options options = t.options();
  require_no_handles(t.subject.plugin->tier, [&] {
    const Precision precision(t, options);
    const Tensor x = normal(t.subject.seed, {kRows, kIn});
    std::vector<Tensor> made;
    t.now("quantize()");
    require_taken(precision.quantize(x, t.spec.outputs.size(), made),
                  "quantize() of x " + shape_text(x.sizes()));
    const Tensor wrong = normal(t.subject.seed, {7});
    answer("quantize() of x [7]", [&] { return precision.quantize(wrong, t.spec.outputs.size(), made); });
    call_link(t, precision);
  });
  return "";
}

std::string check_unknown_needs(PluginTrial& t) {
  const core::Options options = t.options();
  const Precision precision(t, options);
  const auto links = precision.links();
  if (links.empty()) throw Skipped{"it has no link"};
  const TrialChain chain({t.subject.seed, KINORA_DTYPE_FLOAT32}, links);
  require_needs_refused(links[0], normal(t.subject.seed, {1, kRows, 2, kIn}));
  return "";
}

constexpr Check kChecks[] = {
    {"linear", "precision",
     "results and gradients of its linear layers are those of float64, as exactly as four bits allow; a "
     "sample's do not depend on "
     "others, and zeros stay finite",
     false, nullptr, check_linear},
    {"quantize", "precision",
     "quantize() gives the tensors of the manifest, near x, and strange tensors get an answer", false,
     nullptr, check_quantize},
    {"precision-needs", "precision", "its link refuses what needs what it does not know", false, nullptr,
     check_unknown_needs},
    {"precision-leaks", "precision",
     "every handle to a tensor is released, in its link's linear() too, and after an error", false, nullptr,
     check_handles}};

}  // namespace
}  // namespace precision_checks_of

std::span<const Check> precision_checks() { return precision_checks_of::kChecks; }

}  // namespace kinora
