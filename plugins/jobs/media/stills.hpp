// The pictures of a video, written while it is made: one of its beginning, and one of all of it.
#pragma once
#include <filesystem>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/run/job.hpp"

namespace kinora::core {

// [owner-thread] A picture that cannot be written costs a warning and not the video.
class Stills {
 public:
  static constexpr int64_t kThumbnail = 512, kSheet = 160;  // pixels of the longer side of a frame, at most
  static constexpr int64_t kSheetFrames = 10;

  // frames: of the whole video.
  Stills(JobContext& context, std::filesystem::path folder, int64_t frames);
  // uint8 [T, H, W, 3], the next frames. With the first ones it writes thumbnail.webp.
  void add(const at::Tensor& frames);
  // Writes spritesheet.jpg: frames side by side, from the first to the last, evenly spaced. A video of one frame also
  // gets picture.png, the frame itself.
  void finish();

 private:
  void unless_failed(const std::function<void()>& work);

  JobContext& context_;
  const std::filesystem::path folder_;
  std::vector<int64_t> wanted_;  // numbers of the sheet's frames
  int64_t done_ = 0;             // frames
  bool has_failed_ = false;
  at::Tensor first_;
  std::vector<at::Tensor> sheet_;
};

}  // namespace kinora::core
