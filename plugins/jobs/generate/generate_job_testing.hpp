// Shared by the tests of the generate job: a run up to the cached latents, and what its generate job writes and says.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "core/run/job.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::generate_job {

constexpr int kSteps = 3;  // steps of ScratchRun's sampler
inline const std::vector<std::string> kPrompts = {"red sea", "blue"};

inline at::Tensor by_channel(const std::vector<double>& v) {
  return at::tensor(v, at::kDouble).view({-1, 1, 1, 1});
}

// Six of the frames, side by side, as in the lossless picture.
inline at::Tensor strip(const at::Tensor& frames) {
  const at::Tensor at = at::linspace(0, static_cast<double>(frames.size(0) - 1), 6).round().to(at::kLong);
  return at::cat(frames.index_select(0, at).unbind(0), 1);
}
inline at::Tensor picture(const fs::path& png) { return decoded(read_bytes(png), json::object())[0]; }
inline fs::path video(const ScratchRun& run, int64_t n, const std::string& tail) {
  return run.of("film") / "videos" / (fmt::format("{:03}", n) + tail);
}

inline json generated_json(const ScratchRun& run) {
  JobContext context = run.context("film");
  test::run_job(context);
  return context.summary;
}

// A run up to the cached latents, with these lines for its generate job.
inline std::unique_ptr<ScratchRun> ready(const std::string& lines = "") {
  auto run = prepared({{"film", lines}});
  encoded(*run);
  return run;
}

inline std::string generate_message(const std::string& lines) {
  const auto run = ready(lines);
  return test::refusal([&] { generated_json(*run); });
}

}  // namespace kinora::core::generate_job
