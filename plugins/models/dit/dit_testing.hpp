// The cases of tests/data/oracle/{dit,stdit}.safetensors, and links that reorder tokens.
#pragma once
#include <map>
#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/abi/model.h"
#include "kinora/link.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/worst.hpp"

namespace kinora {

inline const auto kDouble = at::TensorOptions().dtype(at::kDouble);

namespace test {

using Links = std::vector<const kinora_link*>;

struct Denoiser : OnChain<kinora_model> {
  Denoiser(const char* id, const core::json& options, at::ScalarType dtype = at::kDouble, Links links = {})
      : OnChain(id, options, dtype, std::move(links)) {}
  at::Tensor operator()(const core::NamedTensors& in) const { return forward(in)[0]; }
};

// Tokens in a different order in each layout, as a strategy leaves them: only the tables give the
// positions.
class Scattered final : public Link<at::Tensor> {
 public:
  // by_sample: one table per sample, as packed rows have.
  explicit Scattered(bool by_sample = false) : Link(KINORA_LEVEL_CONTEXT), by_sample_(by_sample) {}
  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override {
    spec_ = spec;
    all_ = borrow<at::Tensor>(spec.table);
    if (by_sample_) all_ = all_.expand({x.size(0), -1, -1}).contiguous();
    places_.clear();
    return moved(x, {}, Over::all, seq);
  }
  at::Tensor reshard(const at::Tensor& x, kinora_seq from, Over over, kinora_seq& to) override {
    return moved(x, orders_.at(from), over, to);
  }
  at::Tensor gather(const at::Tensor& x, kinora_seq seq) override {
    return next.gather(x, seq).index_select(1, orders_.at(seq).argsort());
  }

 private:
  at::Tensor moved(const at::Tensor& x, const at::Tensor& before, Over over, kinora_seq& to) {
    if (!places_.count(over)) {
      at::manual_seed(5 + static_cast<int64_t>(over));
      const at::Tensor order = at::randperm(x.size(1), at::kLong);
      places_[over] = {order, all_.index_select(1, order)};
    }
    const auto& [order, table] = places_[over];
    auto spec = spec_;
    spec.table = handle(table);
    const at::Tensor plain = before.defined() ? x.index_select(1, before.argsort()) : x;
    const at::Tensor out = next.sequence(plain.index_select(1, order), spec, to);
    orders_[to] = order;
    return out;
  }

  bool by_sample_;
  kinora_seq_spec spec_{};
  at::Tensor all_;
  std::map<Over, std::pair<at::Tensor, at::Tensor>> places_;  // order, table
  std::map<kinora_seq, at::Tensor> orders_;
};

// One case: options, inputs, results.
struct DitCase {
  DitCase(const char* id, const std::string& file, std::string name)
      : id(id), name(std::move(name)), oracle(file, this->name), options(oracle.options.at("options")) {}
  const char* id;
  std::string name;
  Oracle oracle;
  core::json options;

  bool given(const char* what) const {
    const auto& all = oracle.options.at("given");
    return std::find(all.begin(), all.end(), what) != all.end();
  }
  core::NamedTensors inputs(at::ScalarType dtype) const {
    const auto number = [this](const std::string& what, std::vector<int64_t> shape) {
      return numbers(name + "." + what, shape);
    };
    const auto size = [this](const char* option) { return options.at(option).get<int64_t>(); };
    const int64_t B = 2, L = 5, F = 4 / size("patch_time");
    const bool masked = given("condition_mask"), tokens = given("tokens");
    std::vector<int64_t> levels{B}, poses{B, 4};
    if (given("frames")) levels.push_back(F);
    if (tokens) levels.push_back(F * 6), poses.insert(poses.begin() + 1, F * 6);
    core::NamedTensors in;
    in["latent"] = number("latent", {B, size("in_channels") - masked, 4, 4, 6});
    in["timestep"] = number("timestep", levels);
    if (options.at("cross_attention")) in["text"] = number("text", {B, L, size("text_size")});
    if (given("text_mask")) in["text_mask"] = number("text_mask", {B, L}) > -0.5;
    if (masked) in["condition_mask"] = (number("condition_mask", {B, 1, 4, 4, 6}) > 0).to(at::kDouble);
    const std::map<std::string, std::vector<int64_t>> shapes = {
        {"camera", {B, F, 3}}, {"pose", poses}, {"image", {B, 3, 6}}};
    for (const auto& signal : options.value("signals", std::vector<std::string>())) {
      const auto input = signal.substr(0, signal.find(':'));
      if (shapes.count(input)) in[input] = number(signal, shapes.at(input));
      if (input == "fps") in["fps"] = at::tensor({16., 30.}, at::kDouble);
    }
    if (options.value("base_fps", 0.0) > 0) in["fps"] = at::tensor({16., 30.}, at::kDouble);
    for (auto& [key, t] : in) {
      if (t.is_floating_point()) t = t.to(dtype);
      if (oracle.has("grad." + key)) t.requires_grad_();
    }
    return in;
  }

  // The worst relative difference over output and gradients.
  double worst(at::ScalarType dtype, Links links) const {
    Denoiser model(id, options, dtype, std::move(links));
    model.fill();
    const auto in = inputs(dtype);
    const auto out = model(in);
    double worst = difference(out, oracle.exact("output"));
    out.backward(numbers(name + ".grad_output", out.sizes()).to(dtype));
    for (const auto& [key, t] : in)
      if (oracle.has("grad." + key))
        worst = test::worse(worst, difference(t.grad(), oracle.exact("grad." + key)));
    auto wanted = oracle.under("grad.param.");
    EXPECT_GT(wanted.size(), 8u);
    for (const auto& leaf : model.chain().leaves()) {
      EXPECT_TRUE(leaf.tensor.grad().defined()) << leaf.name;
      const auto it = wanted.find(leaf.name);
      if (it == wanted.end()) continue;
      const double apart = difference(leaf.tensor.grad(), it->second);
      EXPECT_LT(apart, dtype == at::kDouble ? 1e-10 : 1e-5) << leaf.name;
      worst = test::worse(worst, apart);
      wanted.erase(it);
    }
    EXPECT_TRUE(wanted.empty());
    return worst;
  }

  // After every chain, with the bounds of float64 and float32.
  void expect_equal() const {
    Scattered together, apart(true);
    const Recompute recompute;
    for (const auto& links :
         {Links{}, Links{together.get()}, Links{apart.get()}, Links{recompute.get(), together.get()}}) {
      const double exact = worst(at::kDouble, links), rounded = worst(at::kFloat, links);
      EXPECT_LT(exact, 1e-10);
      EXPECT_LT(rounded, 1e-5);
      std::printf("%s %s: float64 %.1e, float32 %.1e\n", id, name.c_str(), exact, rounded);
    }
  }
  // Declared names and sizes equal the oracle's.
  void expect_parameters() const {
    Denoiser model(id, options);
    core::json declared = core::json::object();
    for (const auto& p : model.chain().parameters()) declared[p.name] = p.numel();
    EXPECT_EQ(declared, oracle.options.at("parameters"));
  }
};

}  // namespace test
}  // namespace kinora
