// Shared by the tests of jobs on real clips: a run whose earlier jobs are done.
#pragma once
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/run/job.hpp"
#include "host/stages/one_stage.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core {

namespace fs = std::filesystem;
using test::ScratchRun;

constexpr int64_t kFrames = 9, kStride = 4, kEvery = 8;     // of its jobs
inline const std::map<std::string, std::string> kClips = {  // keys of the shard's samples, in its order
    {"a", "bbb_A.mp4"},
    {"c", "bbb_C.mp4"},
    {"d", "bbb_D.mp4"}};
inline const std::map<std::string, std::string> kCaptions = {
    {"a", "red sea"}, {"b", "blue"}, {"c", "blue sea red"}, {"d", "sea"}};

// Four clips: a and c have 16 frames, d has 6, and b is not a video. facts: JSON of some of them.
using ClipFacts = std::map<std::string, json>;
inline void write_shard(const ScratchRun& run, const ClipFacts& facts = {}) {
  const fs::path from = run.folder() / "fields";
  fs::create_directories(from);
  fs::create_directories(run.of("shards"));
  for (const auto& [key, file] : kClips)
    fs::copy_file(fs::path(KINORA_TEST_DATA) / file, from / (key + ".mp4"));
  std::ofstream(from / "b.mp4") << std::string(5000, 'x');
  for (const auto& [key, text] : kCaptions) std::ofstream(from / (key + ".txt")) << text;
  for (const auto& [key, given] : facts) std::ofstream(from / (key + ".json")) << given.dump();
  const std::string command =
      fmt::format("cd '{}' && tar --format=ustar -cf '{}/shard-000000.tar' a.* b.* c.* d.*", from.string(),
                  run.of("shards").string());
  ASSERT_EQ(std::system(command.c_str()), 0);
}

// uint8 [T, H, W, 3], by the reading stage with these options.
inline at::Tensor decoded(const std::vector<char>& bytes, const json& options) {
  const OneStage read(test::runtime(), "video.read", options);
  kinora::Sample sample("x");
  sample.set("mp4", std::string(bytes.begin(), bytes.end()));
  const kinora::Sample made = read(sample);
  const kinora_dl_tensor* t = made.tensor("frames");
  return at::from_blob(static_cast<char*>(t->data) + t->byte_offset, at::IntArrayRef(t->shape, 4), at::kByte)
      .clone();
}
inline std::vector<char> read_bytes(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A clip as the jobs scale it, float32 [3, T, H, W] in [-1, 1].
inline at::Tensor clip(const std::string& key) {
  const auto frames = decoded(read_bytes(fs::path(KINORA_TEST_DATA) / kClips.at(key)),
                              {{"height", 16}, {"width", 32}, {"stride", kEvery}});
  return (frames.to(at::kDouble) / 255 * 2 - 1).permute({3, 0, 1, 2}).to(at::kFloat);
}
inline at::Tensor window(const std::string& key, int64_t first) {
  return clip(key).narrow(1, first, kFrames).unsqueeze(0);
}

inline double worst(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

inline std::unique_ptr<ScratchRun> prepared(const std::map<std::string, std::string>& more = {},
                                            const ClipFacts& facts = {}) {
  auto run = std::make_unique<ScratchRun>(more);
  EXPECT_EQ(run->problems(), "");
  write_shard(*run, facts);
  ScratchRun::save(*run->tokenizer("tokenizer"), run->of("tokenizer") / "weights.safetensors");
  ScratchRun::save(*run->model("latents", "text"), run->folder() / "text.safetensors");
  ScratchRun::save(*run->model("dit"), run->of("dit") / "weights.safetensors");
  return run;
}

inline json encoded(const ScratchRun& run) {
  JobContext context = run.context("latents");
  test::run_job(context);
  return context.summary;
}

}  // namespace kinora::core
