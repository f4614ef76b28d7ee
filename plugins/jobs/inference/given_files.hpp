// Pictures and videos that a user gives to a generation, as frames of its size. The log says once per
// file which parts were cut off to fit, and a different frame rate.
#pragma once
#include <deque>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "core/runtime/runtime.hpp"

namespace kinora::core {

struct FrameSize {
  int64_t height = 0, width = 0;  // pixels
};

// [any-thread]
class GivenFiles {
 public:
  // whose: name in the log. rate: frames per second of the result; 0: that of its video. says: this rank writes
  // the log.
  GivenFiles(Runtime& runtime, std::string whose, double rate, bool says);

  // uint8 [1, H, W, 3], upright. Throws Error(KINORA_ERROR_DATA) for a damaged file, as video() does.
  at::Tensor picture(const std::filesystem::path& file, const FrameSize& size);
  // Frames [first, first + count), uint8 [count, H, W, 3]. Throws Error(KINORA_ERROR_INVALID) if the video is
  // shorter.
  at::Tensor video(const std::filesystem::path& file, int64_t first, int64_t count, const FrameSize& size);
  // Number of frames in a video: what its index or its packets say, else counted by decoding it.
  int64_t length(const std::filesystem::path& file);
  // Frames per second of a video.
  double rate(const std::filesystem::path& file);
  // The frames that a continuation of the video begins with, of its end or start:
  // continued_frames(wanted, its length, frames, time). Undefined: none.
  at::Tensor continued(const std::filesystem::path& file, int64_t wanted, bool from_end, int64_t frames,
                       int64_t time, const FrameSize& size);

 private:
  at::Tensor read(const std::filesystem::path& file, int64_t first, int64_t count, const FrameSize& size);
  // count: with the exact number of frames.
  nlohmann::json facts(const std::filesystem::path& file, bool count);
  void note_rate(const std::filesystem::path& file);
  // Whether to log this, which is once.
  bool is_news(const std::string& about);

  Runtime& runtime_;
  std::string whose_;
  double rate_;
  bool says_;
  std::mutex mutex_;  // of the following
  std::deque<std::pair<std::string, nlohmann::json>> facts_;  // of the newest videos, by identity()
  std::set<std::string> noted_;
};

// Number of frames of a video of `length` frames that a continuation of it begins with, where a tokenizer
// makes one latent frame of the first frame and then one of each `time`. wanted: the job's condition_frames;
// -1: as diffusers' pipelines, the whole video if it is shorter than the result's `frames`, and of a longer
// one two latent frames, as NVIDIA's programs (Cosmos Predict 1: 9 frames, Predict 2: 5). At least one latent
// frame is left to generate.
int64_t continued_frames(int64_t wanted, int64_t length, int64_t frames, int64_t time);

}  // namespace kinora::core
