// A training job of LoRA matrices.
#include "core/torch/apply/tools.hpp"
#include "plugins/jobs/training/train_job_testing.hpp"

namespace kinora::core {
namespace {

using namespace by_hand;

// W + s B A written out: a plain model whose weights are that sum has gradients G with dA = s B^T G and dB =
// s G A^T.
TEST(LoraJob, EqualsALoopOverTheSumOfWeights) {
  const Knobs k;
  const auto run = training(k, "precision = 'fp64'\nadapter = 'FOLDER/begin'\n");
  const auto network = run->model("dit", "model", at::kDouble);
  LoraOptions lora;
  lora.rank = 2, lora.alpha = 3, lora.rslora = true;
  const double s = 3 / std::sqrt(2.0);
  std::map<std::string, Adapter::Pair> pairs;
  std::vector<Trained> trained_pairs;
  std::vector<std::function<void()>> placing;
  NamedTensors base;
  for (auto& leaf : network->chain().leaves()) {
    base[leaf.name] = leaf.tensor.detach().clone();
    const std::string module = module_of(leaf.name);
    if (!module.ends_with("linear_qkv") && !module.ends_with("cross_attention.linear_proj")) continue;
    const at::Tensor w = leaf.tensor.detach(), start = base[leaf.name],
                     a = at::randn({2, w.size(1)}, at::kDouble) / 4,
                     b = at::randn({w.size(0), 2}, at::kDouble) / 4;
    pairs[module] = {a.clone(), b.clone(), s};
    trained_pairs.push_back({lora_a(module), a, [&leaf, b, s] { return s * b.t().mm(leaf.tensor.grad()); }});
    trained_pairs.push_back({lora_b(module), b, [&leaf, a, s] { return s * leaf.tensor.grad().mm(a.t()); }});
    placing.push_back([w, start, a, b, s] { w.copy_(start + s * b.mm(a)); });
  }
  ASSERT_EQ(pairs.size(), 2u);
  write_adapter(run->folder() / "begin", lora, pairs);
  const auto place = [&] {
    for (const auto& f : placing) f();
  };
  place();
  trained(*run);
  const Reference want = reference(*network, samples(), k, trained_pairs, place);
  expect_steps(*run, want, 1e-10);
  const Checkpoint last = load_checkpoint(*latest_checkpoint(run->of("dit") / "checkpoints"));
  EXPECT_LT(worst(last.weights, want.weights), 1e-10) << "the adapter and nothing else";
  EXPECT_LT(worst(last.ema.at("0.6"), want.averages), 1e-10);
  const Adapter made = read_adapter(run->of("dit") / "adapter");
  NamedTensors halves, merged = base;
  for (const auto& [module, pair] : made.modules) {
    halves[lora_a(module)] = pair.a, halves[lora_b(module)] = pair.b;
    merged[module + ".weight"] =
        base[module + ".weight"] + s * want.averages.at(lora_b(module)).mm(want.averages.at(lora_a(module)));
  }
  EXPECT_LT(worst(halves, want.averages), 1e-10);
  EXPECT_EQ(made.options.scale(), lora.scale());
  for (const char* file : {"weights.safetensors", "weights.ema-0.6.safetensors"})
    EXPECT_LT(worst(read_tensors(run->of("dit") / file), merged), 1e-10) << file;
}

// Microbatches split the samples as ranks do: each sample drops the same inputs.
TEST(LoraJob, WithDropoutIsTheSameInMicrobatches) {
  const auto job = [](const std::string& more) {
    auto run = training(Knobs(), "precision = 'fp64'\nlora = 'rank=2 " + more);
    trained(*run);
    return read_tensors(run->of("dit") / "weights.safetensors");
  };
  const auto whole = job("dropout=0.3 targets=linear_qkv'\n"),
             split = job("dropout=0.3 targets=linear_qkv'\naccumulate = 4\n"),
             all = job("targets=linear_qkv'\n");
  EXPECT_LT(worst(split, whole), 1e-10);
  EXPECT_GT(worst(all, whole), 1e-6) << "nothing was dropped";
}

TEST(LoraJob, LeavesWhatConvertMergesIntoTheSameWeights) {
  const auto run = training(Knobs(), kLora);
  trained(*run);
  const auto folder = run->folder();
  convert_weights(nullptr, {{"in", (folder / "start.safetensors").string()},
                            {"out", (folder / "merged.safetensors").string()},
                            {"merge", (run->of("dit") / "adapter").string()}});
  const auto start = read_tensors(folder / "start.safetensors"),
             merged = read_tensors(folder / "merged.safetensors"),
             left = read_tensors(run->of("dit") / "weights.safetensors");
  ASSERT_EQ(left.size(), start.size());
  size_t changed = 0;
  for (const auto& [name, t] : start) {
    EXPECT_TRUE(at::equal(left.at(name), merged.at(name))) << name;
    changed += !at::equal(left.at(name), t);
  }
  EXPECT_EQ(changed, 2u) << "linear_qkv and linear_fc1 of one layer";
}

TEST(LoraJob, RefusesWhatNamesNoAdapter) {
  const auto said = [](const std::string& lines) { return failure(*training(Knobs(), lines)); };
  EXPECT_THAT(said("lora = 'rank=2 targets=linear_porj'\n"), HasSubstr("did you mean 'linear_proj'?"));
  EXPECT_THAT(said(std::string(kLora) + "adapter = 'x'\n"), HasSubstr("lora and adapter are both given"));
  EXPECT_THAT(said("lora = '/'\n"), HasSubstr("to continue with an adapter, set adapter = '/'"));
  const ScratchRun bare(std::map<std::string, std::string>{{"dit", kLora}});
  write_latents(bare.of("latents"), samples());
  EXPECT_THAT(failure(bare), HasSubstr("an adapter is trained on a model's weights"));
}

// Two operations per multiply-add; a backward costs two forwards, minus the frozen part with LoRA.
TEST(TrainJob, LogsTheModelsOperations) {
  const double D = 24, R = 4, M = 4 * D, E = 12, n = 2 * 1 * 2, L = 1, patch = 2 * 2 * 2;
  const double layer =
      D * R + R * 9 * D + n * D * 3 * D + n * D * D + n * D * D + L * E * 2 * D + n * D * D + 2 * n * D * M;
  const double ends = n * patch * D + 2 * D * D + D * R + R * 2 * D + n * D * patch;
  const double linear = 2 * (layer + ends), attention = 4 * n * n * D + 4 * n * L * D;
  const auto run = training(Knobs(), "peak_flops = 1e9\n"), adapted = training(Knobs(), kLora);
  EXPECT_EQ(trained(*run).at("flops_per_sample"), 3 * (linear + attention));
  EXPECT_EQ(trained(*adapted).at("flops_per_sample"), 2 * linear + 3 * attention);
  for (const json& line : run->metrics("dit")) {
    const double a_second = 3 * (linear + attention) * line.at("samples_per_second").get<double>();
    EXPECT_DOUBLE_EQ(line.at("flops_per_second").get<double>(), a_second);
    EXPECT_DOUBLE_EQ(line.at("mfu").get<double>(), a_second / 1e9);
  }
}

}  // namespace
}  // namespace kinora::core
