// One frame of a film at a time, decoded by a process of its own: films are strangers' bytes, and a decoder
// that crashes, hangs or fills the memory must not take the studio along.
#pragma once
#include <filesystem>

#include "core/runtime/runtime.hpp"
#include "kinora/abi/workers.h"
#include "kinora/sample.hpp"

namespace kinora::studio {

class FilmDecoder {
 public:
  static constexpr int kHeight = 180;       // pixels of its frames
  static constexpr double kSeconds = 10.0;  // a frame may take
  // Throws Error if this program starts no worker processes.
  explicit FilmDecoder(core::Runtime&);
  ~FilmDecoder() { end(); }
  FilmDecoder(const FilmDecoder&) = delete;
  FilmDecoder& operator=(const FilmDecoder&) = delete;

  // [owner-thread] A sample with the tensor frames [1, kHeight, W, 3]. The process begins with the first
  // frame and serves until it ends; one that was killed before its time, by whomever, is replaced and asked
  // again, once. Throws Error.
  Sample frame(const std::filesystem::path& film, int64_t first);

 private:
  Sample decoded(const std::filesystem::path& film, int64_t first);
  void end();

  const kinora_workers_api& workers_;
  const std::string options_;
  kinora_worker* worker_ = nullptr;
};

}  // namespace kinora::studio
