// The frames of a video, uint8 RGB, in files, for a program that asked for them next to the MP4.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "plugins/jobs/generate/live_video.hpp"
#include "plugins/jobs/inference/session.hpp"

namespace kinora::core {

// Used by one thread at a time.
class FrameFiles {
 public:
  // Most files of chunks that are not taken: then add() waits, and so does the model soon after.
  static constexpr int64_t kAhead = 2;
  struct About {
    std::string id;
    // "whole": all frames are in one file, "frames". "chunks": each chunk is in a file of its own, which is told.
    std::string form;
    std::filesystem::path folder;
  };
  using Tell = std::function<void(nlohmann::json message)>;
  // mail: {"steer": ID, "taken": N} says that files up to number N, counted from 1, are taken. The session and the mail
  // must outlive this object. Throws Error(KINORA_ERROR_INVALID) for another form.
  // patience: with who takes nothing.
  FrameFiles(About about, const inference::Session& session, LiveMail& mail, Tell tell,
             std::chrono::milliseconds patience = std::chrono::seconds(90));

  // uint8 [T, H, W, 3], the next frames. Throws Error: KINORA_ERROR_CANCELLED if the session ends while it waits,
  // KINORA_ERROR_FAILED if the patience does, KINORA_ERROR_IO.
  void add(const at::Tensor& frames);

 private:
  void wait_for_room();

  const About about_;
  const inference::Session& session_;
  LiveMail& mail_;
  const Tell tell_;
  const std::chrono::milliseconds patience_;
  int64_t sent_ = 0, taken_ = 0;  // files
  int64_t frames_ = 0;
};

}  // namespace kinora::core
