// Tests which weights, adapters and precisions a generate job uses, and that it refuses damaged ones.
#include <fstream>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/digest.hpp"
#include "core/base/log.hpp"
#include "core/io/contents.hpp"
#include "core/torch/apply/tools.hpp"
#include "core/torch/tensors/device.hpp"
#include "plugins/jobs/generate/generate_job_testing.hpp"
#include "plugins/jobs/training/sharded_files.hpp"

namespace kinora::core::generate_job {
namespace {

// Generates from weights whose training rounded one layer in nvfp4, and returns the log.
std::string said_of_precision(const std::string& precision) {
  const auto run = ready("prompts = ['sea']\nformat = ['latents']\nguidance = 1.0\n" + precision);
  const fs::path weights = run->of("dit") / "weights.safetensors";
  NamedTensors tensors;
  for (const auto& [name, tensor] : read_tensors(weights)) tensors[name] = tensor.clone();
  const std::string layer = "decoder.layers.0.mlp.linear_fc1.weight";
  EXPECT_TRUE(tensors.contains(layer));
  fs::remove(weights);
  write_tensors(weights, tensors,
                {{"low_weights", json::array({layer}).dump()},
                 {"low_rule", R"({"block": "16x16", "scale_rule": "static_6"})"}});
  or_throw(set_log_level("info"));
  testing::internal::CaptureStderr();
  generated_json(*run);
  const std::string said = testing::internal::GetCapturedStderr();
  or_throw(set_log_level("error"));
  return said;
}

TEST(GenerateJob, NamesThePrecisionOfTheTrainingIfItRoundsOtherwise) {
  const at::NoGradGuard off;
  const auto trained = testing::HasSubstr("is noted as nvfp4");
  EXPECT_THAT(said_of_precision("precision = { use = 'nvfp4', high = [] }\n"), testing::Not(trained));
  EXPECT_THAT(said_of_precision(""),
              testing::HasSubstr("weights.safetensors is noted as nvfp4 (1 weight low, static_6 in 16x16), "
                                 "and this job generates in fp32 (0 of them low)"));
  EXPECT_THAT(said_of_precision("precision = { use = 'nvfp4', high = ['*linear_fc1*'] }\n"),
              testing::HasSubstr("generates in nvfp4 (0 of them low, static_6 in 16x16)"));
  EXPECT_THAT(said_of_precision("precision = { use = 'nvfp4', high = [], weights = 'mse' }\n"),
              testing::HasSubstr("generates in nvfp4 (1 of them low, mse in 16x16)"));
}

// The latents of a video by the weights in the train job's folder.
at::Tensor latents_of(const ScratchRun& run) {
  fs::remove_all(run.of("film"));
  generated_json(run);
  return read_tensors(video(run, 0, ".latents.safetensors")).at("latent").clone();
}

TEST(GenerateJob, UsesTheAdapterThatWasTrained) {
  const auto run = prepared(
      {{"dit",
        "steps = 3\nbatch = 2\nwarmup = 0\nlearning_rate = 0.05\nweights = 'FOLDER/base.safetensors'\n"
        "lora = 'rank=2 targets=linear_qkv,linear_fc1'\n"},
       {"film", "prompts = ['red sea']\nformat = ['latents']\n"}});
  encoded(*run);
  const fs::path weights = run->of("dit") / "weights.safetensors", base = run->folder() / "base.safetensors";
  fs::rename(weights, base);
  JobContext context = run->context("dit");
  test::run_job(context);
  const at::Tensor adapted = latents_of(*run);
  fs::remove(weights);
  convert_weights(
      nullptr,
      {{"in", base.string()}, {"out", weights.string()}, {"merge", (run->of("dit") / "adapter").string()}});
  EXPECT_TRUE(at::equal(latents_of(*run), adapted));
  fs::copy_file(base, weights, fs::copy_options::overwrite_existing);
  EXPECT_GT(worst(latents_of(*run), adapted), 1e-3) << "an adapter without effect would prove nothing";
}

TEST(GenerateJob, OnTheCpuByNameIsTheSameAsByItself) {
  if (why_no_gpu().empty()) GTEST_SKIP() << "auto is this machine's GPU";
  const auto with = [](const std::string& device) {
    return latents_of(*ready("prompts = ['red sea']\nformat = ['latents']\n" + device));
  };
  EXPECT_TRUE(at::equal(with(""), with("device = 'cpu'\n")));
  EXPECT_THAT(generate_message("device = 'cuda'\n"), testing::HasSubstr("device 'cuda': " + why_no_gpu()));
}

// Inverts a bit of the last byte, of the last tensor.
void damage(const fs::path& file) {
  std::fstream at(file, std::ios::in | std::ios::out | std::ios::binary);
  at.seekg(-1, std::ios::end);
  const char last = static_cast<char>(at.get() ^ 1);
  at.seekp(-1, std::ios::end);
  at.put(last);
}

TEST(GenerateJob, AndEncodeRefuseDamagedWeightsOfFinishedJobs) {
  const auto run = prepared({{"film", "prompts = ['sea']\nformat = ['latents']\nguidance = 1.0\n"}});
  for (const char* job : {"tokenizer", "dit"}) {
    const fs::path weights = run->of(job) / "weights.safetensors";
    const ListedFile file{"weights.safetensors", fs::file_size(weights), sha256_of_file(weights)};
    std::ofstream(run->of(job) / "summary.json")
        << json{{"job", job}, {"status", "done"}, {"files", list_json({file})}}.dump();
  }
  const auto expect_refused = [&](const char* job, const std::string& said) {
    EXPECT_THAT(said, testing::AllOf(testing::HasSubstr(run->of(job).string() +
                                                        ": weights.safetensors is damaged: its SHA"),
                                     testing::HasSubstr(std::string("kinora run FILE --only ") + job)));
  };
  damage(run->of("tokenizer") / "weights.safetensors");
  expect_refused("tokenizer", test::refusal([&] { encoded(*run); }));
  damage(run->of("tokenizer") / "weights.safetensors");
  encoded(*run);
  damage(run->of("dit") / "weights.safetensors");
  expect_refused("dit", test::refusal([&] { generated_json(*run); }));
  EXPECT_FALSE(fs::exists(video(*run, 0, ".latents.safetensors")));
  damage(run->of("dit") / "weights.safetensors");
  EXPECT_EQ(generated_json(*run).at("videos"), 1);
}

TEST(GenerateJob, TakesOtherWeightsForATrainedModel) {
  const auto made = [](const std::string& option, const char* file) {
    const auto run = ready("format = ['latents']\n" + option);
    auto tensors = read_tensors(run->of("dit") / "weights.safetensors");
    for (auto& [name, t] : tensors) t = 1.25 * t;
    write_tensors(run->folder() / file, tensors);
    generated_json(*run);
    return read_tensors(video(*run, 0, ".latents.safetensors")).at("latent");
  };
  EXPECT_TRUE(at::equal(made("weights = 'FOLDER/other.safetensors'", "other.safetensors"),
                        made("", "dit/weights.safetensors")));
}

TEST(GenerateJob, ReadsTheShardsOfATraining) {
  const auto run = ready("format = ['latents']\n");
  const at::Tensor want = latents_of(*run);
  const auto file = run->of("dit") / "weights.safetensors";
  write_files(run->of("dit"), {{.name = "weights.safetensors", .holdings = {held(read_tensors(file))}}}, {},
              3000);
  ASSERT_FALSE(fs::exists(file)) << "the folder must have only an index";
  EXPECT_TRUE(at::equal(latents_of(*run), want));
}

}  // namespace
}  // namespace kinora::core::generate_job
