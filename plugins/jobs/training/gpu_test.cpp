// The jobs on a GPU against the same jobs on the CPU, which other tests compare with the mathematics.
#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/run/job.hpp"
#include "core/torch/attention/attention.hpp"
#include "core/torch/tensors/device.hpp"
#include "plugins/jobs/latents/latent_cache.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core {
namespace {

using Lines = std::map<std::string, std::string>;

// Disables TF32, so that float32 is float32 on both sides.
class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_gpu().empty()) GTEST_SKIP() << why_no_gpu();
    at::globalContext().setAllowTF32CuBLAS(false);
    at::globalContext().setAllowTF32CuDNN(false);
  }
};

// Relative to the largest number.
double apart(const at::Tensor& a, const at::Tensor& b) {
  return worst(a, b) / std::max(b.to(at::kDouble).abs().max().item<double>(), 1e-12);
}
double apart(const NamedTensors& a, const NamedTensors& b) {
  double most = a.size() == b.size() ? 0 : 1e9;
  for (const auto& [name, tensor] : b) most = test::worse(most, apart(a.at(name), tensor));
  return most;
}

// A large eps: otherwise AdamW turns the last digits of a small gradient into its sign.
constexpr const char* kTraining =
    "steps = 2\nbatch = 4\naccumulate = 2\nwarmup = 0\nschedule = 'constant'\nema = 0\n"
    "optimizer = { use = 'adamw', eps = 0.01 }\n"
    "tensorboard = false\npeak_flops = 1\nweights = 'FOLDER/start.safetensors'\n";

struct Trained {
  NamedTensors weights;
  std::vector<json> metrics;
  json summary;
};

Trained trained(const std::string& job, const std::string& slot, const std::string& lines) {
  const auto run = prepared({{job, kTraining + lines}});
  const auto start = run->folder() / "start.safetensors";
  if (slot == "tokenizer")
    ScratchRun::save(*run->tokenizer(job), start);
  else
    ScratchRun::save(*run->model(job, slot), start);
  if (job == "dit") encoded(*run);
  JobContext context = run->context(job);
  test::run_job(context);
  return {read_tensors(run->of(job) / "weights.safetensors"), run->metrics(job), context.summary};
}

void expect_equal(const Trained& gpu, const Trained& cpu) {
  EXPECT_LT(apart(gpu.weights, cpu.weights), 1e-4);
  ASSERT_EQ(gpu.metrics.size(), cpu.metrics.size());
  for (size_t i = 0; i < cpu.metrics.size(); ++i)
    for (const char* name : {"loss", "gradient_norm"})
      EXPECT_NEAR(gpu.metrics[i].at(name).get<double>() / cpu.metrics[i].at(name).get<double>(), 1, 1e-4)
          << name;
}

TEST_F(Gpu, ATrainingEqualsTheCpus) {
  const auto cpu = trained("dit", "model", "device = 'cpu'\n");
  for (const char* prefetch : {"false", "true"}) {
    const auto gpu = trained("dit", "model", std::string("device = 'cuda'\nprefetch = ") + prefetch + "\n");
    expect_equal(gpu, cpu);
    EXPECT_EQ(gpu.summary.contains("gpu_peak_bytes"), why_no_cuda_library().empty());
  }
}

// A sum that differs in float32's last digit rounds a few values to another code.
TEST_F(Gpu, ATrainingInFewBitsIsNearTheCpus) {
  if (!why_no_cuda_library().empty()) GTEST_SKIP() << why_no_cuda_library();
  const std::string model =
      "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 2, "
      "head_size = 32, adaln_lora = 4 }\n";
  for (const char* how :
       {"use = 'nvfp4'", "use = 'fp8'", "use = 'fp8', scaling = 'mx'", "use = 'fp8', attention = 'fp8'"}) {
    SCOPED_TRACE(how);
    const std::string lines = model + "precision = { high = ['embedding', 'head'], " + how + " }\ndevice = ";
    const auto cpu = trained("dit", "model", lines + "'cpu'\n"),
               gpu = trained("dit", "model", lines + "'cuda'\n");
    ASSERT_EQ(gpu.metrics.size(), cpu.metrics.size());
    for (size_t i = 0; i < cpu.metrics.size(); ++i) {
      const auto ratio = [&](const char* name) {
        return gpu.metrics[i].at(name).get<double>() / cpu.metrics[i].at(name).get<double>();
      };
      EXPECT_NEAR(ratio("loss"), 1, 0.02);
      EXPECT_NEAR(ratio("gradient_norm"), 1, 0.1);
    }
  }
}

TEST_F(Gpu, ATrainingOfATokenizerEqualsTheCpus) {
  expect_equal(trained("tokenizer", "tokenizer", "device = 'cuda'\n"),
               trained("tokenizer", "tokenizer", "device = 'cpu'\n"));
}

TEST_F(Gpu, EncodingEqualsTheCpus) {
  const auto cpu = prepared({{"latents", "device = 'cpu'\n"}}),
             gpu = prepared({{"latents", "device = 'cuda'\n"}});
  encoded(*cpu);
  encoded(*gpu);
  const LatentCache want(cpu->of("latents") / "latents.h5"), got(gpu->of("latents") / "latents.h5");
  ASSERT_EQ(got.keys(), want.keys());
  for (const auto& key : want.keys()) EXPECT_LT(apart(got.read(key), want.read(key)), 1e-4) << key;
}

at::Tensor video(const std::string& lines) {
  const auto run =
      prepared({{"film", "prompts = ['red sea']\nformat = ['latents']\nguidance = 1.5\n" + lines}});
  encoded(*run);
  JobContext context = run->context("film");
  test::run_job(context);
  return read_tensors(run->of("film") / "videos" / "000.latents.safetensors").at("latent");
}

// Noise depends on its seed and position, and is computed on the CPU.
TEST_F(Gpu, SamplingEqualsTheCpus) {
  const at::Tensor cpu = video("device = 'cpu'\n");
  for (const std::string how : {"cuda_graphs = false\n", "cuda_graphs = true\n", "batch_guidance = true\n"})
    EXPECT_LT(apart(video("device = 'cuda'\n" + how), cpu), 1e-3) << how;
}

TEST_F(Gpu, Bfloat16AttentionIsFused) {
  const at::NoGradGuard off;
  at::manual_seed(1);
  const auto drawn = [] { return at::randn({2, 256, 4, 64}).to(at::kCUDA, at::kBFloat16); };
  const at::Tensor q = drawn(), k = drawn(), v = drawn();
  const auto heads_first = [](const at::Tensor& x) { return x.transpose(1, 2); };
  const auto choice = static_cast<at::SDPBackend>(
      at::_fused_sdp_choice(heads_first(q), heads_first(k), heads_first(v), {}, 0.0, false, 0.125));
  EXPECT_TRUE(choice == at::SDPBackend::flash_attention || choice == at::SDPBackend::cudnn_attention)
      << "backend " << static_cast<int>(choice);
  kinora_attention how{};
  how.struct_size = sizeof how;
  how.name = "test";
  how.scale = 0.125;
  VisiblePlans plans;
  const auto exact = [](const at::Tensor& x) { return x.to(at::kCPU, at::kDouble); };
  EXPECT_LT(apart(exact(attention(q, k, v, how, Frames(), plans)),
                  attention(exact(q), exact(k), exact(v), how, Frames(), plans)),
            2e-2);
}

}  // namespace
}  // namespace kinora::core
