// The files of a generated video, written as its frames come.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/run/job.hpp"

namespace kinora::core {

// BASE.mp4, BASE.webp, BASE/00000.png, ... and BASE.png, six frames side by side. Each appears under its name when it
// is complete; what is written until then has a hidden temporary name next to it, and is removed by the destructor or,
// after a kill, when the job runs again.
//
// Memory: a video that is made at once is kept whole. One that grows keeps its last chunks, up to four, and the
// six frames; webp alone needs all of them.
//
// [owner-thread] Errors are kinora::Error, also those of an earlier add().
class VideoFiles {
 public:
  struct Form {
    std::filesystem::path base;        // its folder exists
    std::vector<std::string> formats;  // of mp4, webp, png; others are left to the caller
    double fps = 24;
    int64_t crf = 18;
  };
  VideoFiles(JobContext&, Form);
  VideoFiles(const VideoFiles&) = delete;
  VideoFiles& operator=(const VideoFiles&) = delete;
  ~VideoFiles();

  // Call before the first add() of a video in chunks that has `frames` frames together. known: what is known of it now,
  // the comment of its PNG frames.
  void grow(int64_t frames, const std::string& known);
  // uint8 [T, H, W, 3]. If the video grows, this waits while two chunks wait to be encoded.
  void add(const at::Tensor& frames);
  // Completes the files, with this comment. Call once.
  void finish(const std::string& comment);

  // Sizes of the frames that were added.
  int64_t frames() const { return frames_; }
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }

 private:
  class Growing;
  void write_pictures(const at::Tensor& frames, const std::string& comment);
  void write_encoded(const std::string& format, const at::Tensor& frames, const std::string& comment);

  JobContext& context_;
  const Form form_;
  int64_t frames_ = 0, height_ = 0, width_ = 0;
  std::vector<at::Tensor> kept_;
  std::unique_ptr<Growing> growing_;  // null: made at once
};

}  // namespace kinora::core
