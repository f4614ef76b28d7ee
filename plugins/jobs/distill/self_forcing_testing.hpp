// Self-forcing by its definition, chunk by chunk, and small networks for it.
#pragma once
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/distill/detach_clean_link.hpp"
#include "plugins/jobs/distill/earlier_keys_link.hpp"
#include "plugins/jobs/distill/rollout_cache_link.hpp"
#include "plugins/jobs/distill/self_forcing.hpp"
#include "tests/support/run_file.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core::forcing {

using at::Tensor;
using Gradients = std::map<std::string, Tensor>;

inline constexpr int64_t B = 2, C = 2, kRows = 4, kColumns = 4;

inline const json& small(const std::string& model) {
  static const std::map<std::string, json> all{{"dit",
                                                {{"in_channels", C},
                                                 {"out_channels", C},
                                                 {"text_size", 12},
                                                 {"layers", 2},
                                                 {"heads", 2},
                                                 {"head_size", 12},
                                                 {"adaln_lora", 4}}},
                                               {"wan",
                                                {{"in_channels", C},
                                                 {"out_channels", C},
                                                 {"text_dim", 12},
                                                 {"num_layers", 2},
                                                 {"freq_dim", 8},
                                                 {"num_attention_heads", 2},
                                                 {"ffn_dim", 24},
                                                 {"attention_head_dim", 12}}}};
  return all.at(model);
}

struct ForcingCase {
  std::string model;
  int64_t frames, chunk, window = 0, sink = 0, first_chunk = 0;
  std::string sampler = "";  // empty: fresh noise between steps
};
inline void PrintTo(const ForcingCase& c, std::ostream* out) {
  *out << fmt::format("{}_{}_by_{}_window_{}_sink_{}{}", c.model, c.frames, c.chunk, c.window, c.sink,
                      c.sampler.empty() ? "" : "_" + c.sampler.substr(c.sampler.find('-') + 1));
}

inline FrameOptions rule_of(const ForcingCase& c) {
  FrameOptions out;
  out.teacher_forcing = true;
  out.chunk = c.chunk, out.window = c.window, out.sink = c.sink;
  out.first_chunk = c.first_chunk;
  return out;
}

// A component with its options, which instances refer to.
struct Opened {
  Opened(const std::string& id, const json& given)
      : component(or_throw(test::runtime().registry().open(id))),
        options(or_throw(Options::make(*component.spec, given))) {}
  Component component;
  Options options;
};

// A network in float64 whose weights leave no layer at zero: the same for every chain.
class Student {
 public:
  Student(const std::string& model, const Frames& rule, const std::vector<const kinora_link*>& links)
      : opened_("model/" + model, small(model)),
        network_(opened_.component, opened_.options, {.dtype = at::kDouble, .frames = rule}, links) {
    at::manual_seed(11);
    for (auto& leaf : network_.chain().leaves()) {
      const Tensor t = leaf.tensor.detach();
      t.copy_(at::randn(t.sizes(), at::kDouble) * (t.dim() > 1 ? 0.3 : 0.2) +
              (t.dim() == 1 && !leaf.name.ends_with("bias") ? 1 : 0));
    }
  }
  const ComponentSpec& spec() const { return *opened_.component.spec; }
  Model& network() { return network_; }
  Gradients gradients() {
    Gradients out;
    for (auto& leaf : network_.chain().leaves())
      out[leaf.name] = leaf.tensor.grad().defined() ? leaf.tensor.grad() : at::zeros_like(leaf.tensor);
    return out;
  }

 private:
  Opened opened_;
  Model network_;
};

inline Tensor numbers(const std::string& key, const std::vector<int64_t>& shape) {
  return sample_noise(at::empty(shape, at::kDouble), 5, 0, key);
}

// Relative to the largest number of b.
inline double furthest(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

// The sequential form reads keys and values of clean passes as constants. The chain's rule hides those outside the
// window.
class KeptContext final : public kinora::Link<Tensor> {
 public:
  KeptContext() : Link(KINORA_LEVEL_CACHE) { skip_inherited<KeptContext>(); }
  bool stores = false;
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override {
    if (!how.kv_seq) return next.attention(q, k, v, how);
    const auto after = [](const Tensor& a, const Tensor& b) { return a.defined() ? at::cat({a, b}, 1) : b; };
    Kept& before = kept_[how.name];
    const Kept all{after(before.k, k), after(before.v, v), after(before.table, borrow<Tensor>(how.k_table))};
    kinora_attention longer = how;
    longer.k_table = handle(all.table);
    const Tensor out = next.attention(q, all.k, all.v, longer);
    if (stores) before = {all.k.detach(), all.v.detach(), all.table};
    return out;
  }

 private:
  struct Kept {
    Tensor k, v, table;
  };
  std::map<std::string, Kept> kept_;
};

// Everything that both forms share: the weight of each number of the result in the loss, and the inputs.
struct Setting {
  explicit Setting(const ForcingCase& of)
      : c(of), flow("loss/flow", json::object()), loss(flow.component, flow.options) {}
  ForcingCase c;
  Opened flow;
  LossInstance loss;
  Tensor text = numbers("text", {B, 3, 12});
  std::vector<int64_t> shape() const { return {B, C, c.frames, kRows, kColumns}; }
  Tensor weight() const { return numbers("weight", shape()); }
};

inline const std::vector<double> kFreshLevels{1, 0.9, 0.7, 0.4};

// The student of a case with all links of a distill job's, and its rollouts.
class OnCache {
 public:
  // detaches: the clean stream's keys and values. more: another link of the chain.
  explicit OnCache(Setting& s, bool detaches = true, const kinora_link* more = nullptr)
      : setting_(s),
        kv_("cache/kv", cache_of_frames(rule_of(s.c), {{"capacity", 0}, {"sink", 0}})),
        cache(kv_.component, kv_.options),
        rollouts_(cache.link()),
        student(s.c.model, training_rule(rule_of(s.c)), links(detaches, more)),
        objective_(s.loss, student.network(), student.spec(), at::kDouble, at::kDouble, at::kCPU, {}, C, 0.0),
        steps_("sampler/" + (s.c.sampler.empty() ? "flow-renoise" : s.c.sampler),
               s.c.sampler.empty() ? json::object() : json{{"steps", 3}, {"shift", 2.0}}),
        sampler_(steps_.component, steps_.options),
        rolls(student.network(), cache, student.spec(), s.loss, how()) {}

  // An exit step for each chunk of the video.
  std::vector<int64_t> exits(uint32_t seed) const {
    std::mt19937 random(seed);
    std::vector<int64_t> out;
    for (int64_t i = 0; i < rolls.chunks(setting_.c.frames); ++i)
      out.push_back(std::uniform_int_distribution<int64_t>(0, rolls.steps() - 1)(random));
    return out;
  }
  NamedTensors conditions() const { return {{"text", setting_.text}}; }
  // The two-stream forward of what was made, with its graph.
  Tensor estimate(const SelfForced& made) {
    return noisy_estimate(student.network(), objective_, {{"latent", made.x}, {"text", setting_.text}},
                          made.noisy, made.levels);
  }

 private:
  std::vector<const kinora_link*> links(bool detaches, const kinora_link* more) const {
    std::vector<const kinora_link*> out{rollouts_.get(), earlier.get()};
    if (detaches) out.push_back(detached_.get());
    if (more) out.push_back(more);
    return out;
  }
  SelfForcing::How how() const {
    SelfForcing::How out{
        .rule = rule_of(setting_.c), .levels = kFreshLevels, .stream = at::kDouble, .seed = 5};
    if (setting_.c.sampler.empty()) return out;
    out.sampler = &sampler_;
    out.levels = sampler_.levels();
    out.levels.pop_back();
    return out;
  }
  Setting& setting_;
  Opened kv_;

 public:
  CacheInstance cache;
  EarlierKeysLink earlier;

 private:
  RolloutCacheLink rollouts_;
  DetachCleanLink detached_;

 public:
  Student student;

 private:
  Objective objective_;
  Opened steps_;
  SamplerInstance sampler_;

 public:
  SelfForcing rolls;
};

// An exit step reads, by Euler's method from the noise of its frames, three levels u from 1 to 0.001, at shift 2.
inline void expect_euler_steps(const std::function<Tensor(const Tensor&, const Tensor&)>& estimate,
                               const std::function<Tensor(const Tensor&)>& own, const SelfForced& made,
                               int64_t first) {
  const at::NoGradGuard off;
  const Tensor want = own(made.noisy), end = own(made.levels);
  std::vector<Tensor> frames;
  for (int64_t f = first; f < first + want.size(2); ++f)
    frames.push_back(
        sample_noise(at::empty({B, C, kRows, kColumns}, at::kDouble), 5, 0, fmt::format("test.{}.0", f)));
  Tensor x = at::stack(frames, 2);
  const auto level = [](double u) { return 2 * u / (1 + u); };
  const std::vector<double> levels{level(1), level(0.5005), level(0.001)};
  size_t i = 0;
  for (; i < 2 && levels[i] > end[0][0].item<double>() + 1e-9; ++i) {
    const Tensor x0 = estimate(x, at::full_like(end, levels[i]));
    x = x0 + levels[i + 1] / levels[i] * (x - x0);
  }
  EXPECT_NEAR(end[0][0].item<double>(), levels[i], 1e-12);
  EXPECT_LT(furthest(want, x), 1e-10) << "Euler's steps, frame " << first;
}

// The definition: each chunk's exit step with gradients, after clean passes without. weight: of each number of the
// video in the loss.
inline Gradients chunk_by_chunk(Setting& s, const SelfForced& made, const Tensor& weight) {
  const ForcingCase& c = s.c;
  KeptContext context;
  Student student(c.model, generating_rule(rule_of(c)), {context.get()});
  Model& network = student.network();
  for (int64_t first = 0, n = 0; first < c.frames; first += n) {
    n = std::min(first == 0 && c.first_chunk > 0 ? c.first_chunk : c.chunk, c.frames - first);
    Frames frames = generating_rule(rule_of(c));
    frames.start = first;
    network.chain().set_frames(frames);
    const auto own = [&](const Tensor& t) { return t.narrow(t.dim() == 2 ? 1 : 2, first, n); };
    const auto estimate = [&](const Tensor& x, const Tensor& levels) {
      const auto in = s.loss.input(x, levels);
      const auto out =
          network.forward({{"latent", in.latent}, {"timestep", in.timestep}, {"text", s.text}}).at(0);
      return s.loss.estimate(x, levels, out);
    };
    if (c.sampler == "flow-euler") expect_euler_steps(estimate, own, made, first);
    const Tensor x0 = estimate(own(made.noisy), own(made.levels));
    EXPECT_LT(furthest(x0.detach(), own(made.x)), 1e-10) << "the rollout on the cache, frame " << first;
    (x0 * own(weight)).sum().backward();
    const at::NoGradGuard off;
    context.stores = true;
    estimate(own(made.x), at::zeros({B, n}, at::kDouble));
    context.stores = false;
  }
  return student.gradients();
}

inline double most_apart(const Gradients& got, const Gradients& want) {
  double out = 0;
  for (const auto& [name, g] : want)
    out = test::worse(out, ((got.at(name) - g).abs().max() / g.abs().max().clamp_min(1e-3)).item<double>());
  return out;
}

}  // namespace kinora::core::forcing
