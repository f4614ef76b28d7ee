// Three networks on one frozen base: memory, gradients, files.
#include "plugins/jobs/distill/shared_base.hpp"

#include <set>

#include <gmock/gmock.h>

#include "core/torch/weights/lora.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/jobs/distill/distill_testing.hpp"
#include "plugins/jobs/training/checkpoint.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core::shared_base_test {
namespace {

using namespace few_steps;
using Pairs = std::map<std::string, Adapter::Pair>;

constexpr double kScale = 1.5;
const std::string kOneStep = "steps = 1\nevery = 1\nguidance = 3.0\nweight_decay = 0.0\nclip_norm = 0.0\n";
const std::string kLora = "lora = 'rank=2 alpha=3 targets=linear_qkv,linear_proj'\n";

NamedTensors base_of(const ScratchRun& run) {
  NamedTensors out;
  for (const auto& [name, t] : read_tensors(run.of("dit") / "weights.safetensors"))
    out[name] = t.to(at::kDouble);
  return out;
}

Pairs pairs_for(const NamedTensors& base, int64_t seed) {
  Pairs out;
  for (const auto& [name, w] : base) {
    const std::string module = module_of(name);
    if (!module.ends_with("linear_qkv") && !module.ends_with("linear_proj")) continue;
    out[module] = {sample_noise(at::empty({2, w.size(1)}, at::kDouble), 5, seed, module + "a") / 4,
                   sample_noise(at::empty({w.size(0), 2}, at::kDouble), 5, seed, module + "b") / 4, kScale};
  }
  return out;
}

NamedTensors sums(const NamedTensors& base, const Pairs& pairs) {
  NamedTensors out = base;
  for (const auto& [module, pair] : pairs) {
    at::Tensor& w = out.at(module + ".weight");
    w = w + kScale * pair.b.mm(pair.a);
  }
  return out;
}

// The gradient of AdamW's first step with beta1 = 0 and eps = 1e-3: its change is rate g / (|g| + eps).
at::Tensor gradient(const at::Tensor& before, const at::Tensor& after, double rate) {
  const at::Tensor u = (before - after) / rate;
  return 1e-3 * u / (1 - u.abs());
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

fs::path checkpoint(const ScratchRun& run, int64_t step) {
  return run.of("few") / fmt::format("checkpoints/step-{:06}", step);
}

// The critic's: "critic".
NamedTensors weights_of(const ScratchRun& run, const std::string& role) {
  Checkpoint saved = load_checkpoint(checkpoint(run, 1));
  return role == "critic" ? taken(saved.more, "critic.weight.") : saved.weights;
}

TEST(SharedBase, IsInMemoryOnce) {
  const auto run = distillation(kOneStep);
  const ComponentUse& use = *run->spec("dit").component("model");
  const Component component = or_throw(test::runtime().registry().open(use.id));
  const ChainOptions chain{.lora = parse_lora("rank=2 targets=linear_qkv")};
  Model base(component, use.options, chain), other(component, use.options, chain);
  std::set<void*> memory;
  int64_t bytes = 0, trained = 0;
  share_base(base, other);
  for (Model* one : {&base, &other})
    for (const auto& leaf : one->chain().leaves()) {
      if (!leaf.frozen) trained += static_cast<int64_t>(leaf.tensor.nbytes());
      if (memory.insert(leaf.tensor.data_ptr()).second) bytes += static_cast<int64_t>(leaf.tensor.nbytes());
    }
  EXPECT_EQ(bytes, base.numel() * 4 + trained / 2);
  base.load(run->of("dit") / "weights.safetensors");
  const auto loaded = base_of(*run);
  for (const auto& leaf : other.chain().leaves())
    if (leaf.frozen) {
      EXPECT_TRUE(at::equal(leaf.tensor.to(at::kDouble), loaded.at(leaf.name))) << leaf.name;
    }
  Model narrower(component, use.options, {.lora = parse_lora("rank=2 targets=linear_proj")}),
      plain(component, use.options, {});
  share_base(base, narrower);
  EXPECT_THAT(test::refusal([&] { share_base(base, plain); }), testing::HasSubstr("cannot be shared"));
}

// W + s B A written out: networks whose weights are these sums have gradients G with dA = s B^T G, dB = s G A^T.
TEST(SharedBase, HasTheGradientsOfNetworksWhoseWeightsAreTheSums) {
  const auto shared = distillation(kOneStep +
                                   "adapter = 'FOLDER/student'\nteacher_weights = 'FOLDER/teacher'\n"
                                   "critic_weights = 'FOLDER/critic'\n"),
             own = distillation(kOneStep +
                                "weights = 'FOLDER/student.safetensors'\n"
                                "teacher_weights = 'FOLDER/teacher.safetensors'\n"
                                "critic_weights = 'FOLDER/critic.safetensors'\n");
  const NamedTensors base = base_of(*shared);
  LoraOptions lora;
  lora.rank = 2, lora.alpha = 3;
  std::map<std::string, Pairs> pairs;
  for (const char* role : {"student", "teacher", "critic"}) {
    pairs[role] = pairs_for(base, static_cast<int64_t>(pairs.size()));
    ASSERT_GT(pairs[role].size(), 2U);
    write_adapter(shared->folder() / role, lora, pairs[role]);
    write_tensors(own->folder() / (std::string(role) + ".safetensors"), sums(base, pairs[role]));
  }
  distilled(*shared);
  distilled(*own);
  for (const char* name : {"loss", "score_distance", "critic"}) {
    const double want = own->metrics("few").at(0).at(name);
    EXPECT_NEAR(shared->metrics("few").at(0).at(name).get<double>(), want, 1e-10 * want) << name;
  }
  for (const auto& [role, rate] : {std::pair<std::string, double>{"student", 0.01}, {"critic", 0.02}}) {
    const NamedTensors before = sums(base, pairs[role]), of_sum = weights_of(*own, role),
                       of_pairs = weights_of(*shared, role);
    EXPECT_EQ(of_pairs.size(), 2 * pairs[role].size()) << "a checkpoint has the adapter alone";
    for (const auto& [module, pair] : pairs[role]) {
      const std::string weight = module + ".weight";
      const at::Tensor G = gradient(before.at(weight), of_sum.at(weight), rate);
      EXPECT_LT(apart(gradient(pair.a, of_pairs.at(lora_a(module)), rate), kScale * pair.b.t().mm(G)), 1e-9)
          << role << " " << module;
      EXPECT_LT(apart(gradient(pair.b, of_pairs.at(lora_b(module)), rate), kScale * G.mm(pair.a.t())), 1e-9)
          << role << " " << module;
    }
  }
}

TEST(SharedBase, ResumesAdaptersAloneToTheSameBytesAndMergesThem) {
  const std::string lines = "steps = 2\nevery = 1\nguidance = 3.0\n" + kLora;
  const auto whole = distillation(lines), resumed = distillation(lines);
  distilled(*whole);
  fs::create_directories(checkpoint(*resumed, 1).parent_path());
  fs::copy(checkpoint(*whole, 1), checkpoint(*resumed, 1), fs::copy_options::recursive);
  distilled(*resumed);
  const Checkpoint want = load_checkpoint(checkpoint(*whole, 2)),
                   got = load_checkpoint(checkpoint(*resumed, 2));
  for (const auto& [name, t] : want.weights) {
    EXPECT_TRUE(is_lora(name)) << name;
    EXPECT_TRUE(at::equal(got.weights.at(name), t)) << name;
  }
  size_t of_critic = 0;
  for (const auto& [name, t] : want.more) {
    EXPECT_TRUE(at::equal(got.more.at(name), t)) << name;
    of_critic += name.starts_with("critic.weight.") ? 1 : 0;
  }
  EXPECT_EQ(of_critic, want.weights.size());
  const NamedTensors base = base_of(*whole), left = read_tensors(whole->of("few") / "weights.safetensors");
  const Adapter adapter = read_adapter(whole->of("few") / "adapter");
  size_t changed = 0;
  for (const auto& [name, t] : base) {
    const auto pair = adapter.modules.find(module_of(name));
    const bool is_adapted = pair != adapter.modules.end();
    const at::Tensor sum = is_adapted ? t + kScale * pair->second.b.mm(pair->second.a) : t;
    EXPECT_LT((left.at(name) - sum).abs().max().item<double>(), 1e-12) << name;
    EXPECT_EQ(at::equal(left.at(name), t), !is_adapted) << name;
    changed += is_adapted ? 1 : 0;
  }
  EXPECT_EQ(2 * changed, want.weights.size());
}

TEST(SharedBase, RefusesWeightsOfAnotherNetworkAndDropout) {
  const auto said = [](const std::string& lines) {
    const auto run = distillation(kOneStep + lines);
    ScratchRun::save(*run->model("dit"), run->folder() / "other.safetensors");
    return test::refusal([&] { distilled(*run); });
  };
  EXPECT_THAT(said(kLora + "critic_weights = 'FOLDER/other.safetensors'\n"),
              testing::HasSubstr("critic_weights: with lora all networks share the weights of the student"));
  EXPECT_THAT(said("lora = 'rank=2 dropout=0.1 targets=linear_qkv'\n"),
              testing::HasSubstr("dropout = 0.1 would make the forward with gradients another one"));
  EXPECT_THAT(said("lora = 'rank=2 targets=linear_qvk'\n"), testing::HasSubstr("did you mean 'linear_qkv'?"));
}

}  // namespace
}  // namespace kinora::core::shared_base_test
