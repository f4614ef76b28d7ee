// The latents of the finished chunks of a video, in files, so that a killed process loses the chunk at work alone.
#pragma once
#include <filesystem>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "core/base/log.hpp"
#include "core/torch/weights/safe_tensors.hpp"

namespace kinora::core {

// [one thread] Files that cannot be written or read cost a warning: those chunks are made again.
class KeptChunks {
 public:
  // about: all that decides the video; chunks of another one are not known.
  KeptChunks(std::filesystem::path folder, std::string about)
      : folder_(std::move(folder)), about_(std::move(about)) {}
  void keep(int64_t chunk, const at::Tensor& latent) const {
    try {
      std::filesystem::create_directories(folder_);
      write_tensors(file(chunk), {{"latent", latent}}, {{"about", about_}});
    } catch (const std::exception& e) {
      log_warn("a chunk would be made again after an end of this process: {}", e.what());
    }
  }
  // Undefined: there is none.
  at::Tensor known(int64_t chunk) const {
    if (!std::filesystem::exists(file(chunk))) return {};
    try {
      const Safetensors kept = or_throw(Safetensors::open(file(chunk)));
      const auto about = kept.metadata().find("about");
      if (about == kept.metadata().end() || about->second != about_) return {};
      log_info("chunk {} was finished before this process began", chunk);
      return tensors_of(kept).at("latent").clone();
    } catch (const std::exception& e) {
      log_warn("a chunk is made again: {}", e.what());
      return {};
    }
  }
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  std::filesystem::path file(int64_t chunk) const {
    return folder_ / fmt::format("{:06}.safetensors", chunk);
  }

  const std::filesystem::path folder_;
  const std::string about_;
};

}  // namespace kinora::core
