// Self-forcing's gradient from one two-stream forward against its definition, chunk by chunk.
#include "plugins/jobs/distill/self_forcing.hpp"

#include <functional>
#include <map>
#include <random>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/distill/detach_clean_link.hpp"
#include "plugins/jobs/distill/rollout_cache_link.hpp"
#include "tests/support/run_file.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core::distilling {
namespace {

using at::Tensor;
using Gradients = std::map<std::string, Tensor>;

constexpr int64_t B = 2, C = 2, kRows = 4, kColumns = 4;

const json& small(const std::string& model) {
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
void PrintTo(const ForcingCase& c, std::ostream* out) {
  *out << fmt::format("{}_{}_by_{}_window_{}_sink_{}{}", c.model, c.frames, c.chunk, c.window, c.sink,
                      c.sampler.empty() ? "" : "_" + c.sampler.substr(c.sampler.find('-') + 1));
}

FrameOptions rule_of(const ForcingCase& c) {
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

Tensor numbers(const std::string& key, const std::vector<int64_t>& shape) {
  return sample_noise(at::empty(shape, at::kDouble), 5, 0, key);
}

// Relative to the largest number of b.
double furthest(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

// What the sequential form reads: keys and values of clean passes as constants. The chain's rule hides those outside
// the window.
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

const std::vector<double> kFreshLevels{1, 0.9, 0.7, 0.4};

struct Parallel {
  SelfForced made;
  Tensor x;  // of the two-stream forward
  Gradients gradients;
};

// detaches: the clean stream's keys and values.
Parallel in_parallel(Setting& s, bool detaches, uint32_t seed) {
  const ForcingCase& c = s.c;
  const Opened kv("cache/kv", cache_of_frames(rule_of(c), {{"capacity", 0}, {"sink", 0}}));
  CacheInstance cache(kv.component, kv.options);
  RolloutCacheLink rollouts(cache.link());
  DetachCleanLink detached;
  std::vector<const kinora_link*> links{rollouts.get()};
  if (detaches) links.push_back(detached.get());
  Student student(c.model, training_rule(rule_of(c)), links);
  const Objective objective(s.loss, student.network(), student.spec(), at::kDouble, at::kDouble, at::kCPU, {},
                            C, 0.0);
  SelfForcing::How how{.rule = rule_of(c), .levels = kFreshLevels, .stream = at::kDouble, .seed = 5};
  const Opened steps("sampler/" + (c.sampler.empty() ? "flow-renoise" : c.sampler),
                     c.sampler.empty() ? json::object() : json{{"steps", 3}, {"shift", 2.0}});
  const SamplerInstance sampler(steps.component, steps.options);
  if (!c.sampler.empty()) {
    how.sampler = &sampler;
    how.levels = sampler.levels();
    how.levels.pop_back();
  }
  SelfForcing forcing(student.network(), cache, student.spec(), s.loss, how);
  std::mt19937 random(seed);
  std::vector<int64_t> exits;
  for (int64_t i = 0; i < forcing.chunks(c.frames); ++i)
    exits.push_back(std::uniform_int_distribution<int64_t>(0, forcing.steps() - 1)(random));
  Parallel out{forcing.roll_out({{"text", s.text}}, s.shape(), exits, 0, "test"), {}, {}};
  out.x = noisy_estimate(student.network(), objective, {{"latent", out.made.x}, {"text", s.text}},
                         out.made.noisy, out.made.levels);
  (out.x * s.weight()).sum().backward();
  out.gradients = student.gradients();
  return out;
}

// What an exit step reads, by Euler's method from the noise of its frames: three levels u from 1 to 0.001, at shift 2.
void expect_euler_steps(const std::function<Tensor(const Tensor&, const Tensor&)>& estimate,
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

// The definition: each chunk's exit step with gradients, after clean passes without.
Gradients chunk_by_chunk(Setting& s, const SelfForced& made) {
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
    (x0 * own(s.weight())).sum().backward();
    const at::NoGradGuard off;
    context.stores = true;
    estimate(own(made.x), at::zeros({B, n}, at::kDouble));
    context.stores = false;
  }
  return student.gradients();
}

double most_apart(const Gradients& got, const Gradients& want) {
  double out = 0;
  for (const auto& [name, g] : want)
    out = test::worse(out, ((got.at(name) - g).abs().max() / g.abs().max().clamp_min(1e-3)).item<double>());
  return out;
}

class SelfForcingGradient : public testing::TestWithParam<ForcingCase> {};

TEST_P(SelfForcingGradient, InParallelEqualsChunkByChunk) {
  Setting s(GetParam());
  for (const uint32_t seed : {1, 2, 3}) {
    const Parallel got = in_parallel(s, /*detaches=*/true, seed);
    EXPECT_LT(furthest(got.x.detach(), got.made.x), 1e-10)
        << "the two-stream forward makes the rollout again";
    const Gradients want = chunk_by_chunk(s, got.made);
    ASSERT_EQ(got.gradients.size(), want.size());
    EXPECT_LT(most_apart(got.gradients, want), 1e-10) << "exits of seed " << seed;
  }
}

TEST_P(SelfForcingGradient, IsAnotherOneUnlessTheCleanStreamIsDetached) {
  Setting s(GetParam());
  const Parallel got = in_parallel(s, /*detaches=*/false, 1);
  EXPECT_LT(furthest(got.x.detach(), got.made.x), 1e-10);
  EXPECT_GT(most_apart(got.gradients, chunk_by_chunk(s, got.made)), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Of, SelfForcingGradient,
                         testing::Values(ForcingCase{"dit", 5, 2}, ForcingCase{"dit", 6, 1, 3, 1},
                                         ForcingCase{"dit", 6, 1, 2}, ForcingCase{"wan", 7, 2, 2, 1},
                                         ForcingCase{"dit", 6, 2, 2, 1, 1}, ForcingCase{"dit", 7, 2, 2, 0, 3},
                                         ForcingCase{"dit", 6, 1, 3, 1, 0, "flow-euler"},
                                         ForcingCase{"wan", 7, 2, 2, 1, 0, "unipc"}),
                         [](const auto& info) { return testing::PrintToString(info.param); });

}  // namespace
}  // namespace kinora::core::distilling
