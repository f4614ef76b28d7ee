// Decodes one frame of a video at a time in a separate process: videos come from anyone, and a decoder
// that crashes, hangs or fills the memory must not take down the studio.
#pragma once
#include <filesystem>

#include "core/runtime/runtime.hpp"
#include "kinora/abi/workers.h"
#include "kinora/sample.hpp"

namespace kinora::studio {

class FilmDecoder {
 public:
  static constexpr int kHeight = 180;       // height of its frames, pixels
  static constexpr double kSeconds = 10.0;  // time limit of a frame
  // Throws Error if this program cannot start worker processes.
  explicit FilmDecoder(core::Runtime&);
  ~FilmDecoder() { end(); }
  FilmDecoder(const FilmDecoder&) = delete;
  FilmDecoder& operator=(const FilmDecoder&) = delete;

  // [owner-thread] A sample with the tensor frames [1, kHeight, W, 3]. The process starts with the first
  // frame and serves until it ends. If it was killed from outside, it is replaced and the frame is tried
  // once more. Throws Error.
  Sample frame(const std::filesystem::path& film, int64_t first);

 private:
  Sample decoded(const std::filesystem::path& film, int64_t first);
  void end();

  const kinora_workers_api& workers_;
  const std::string options_;
  kinora_worker* worker_ = nullptr;
};

}  // namespace kinora::studio
