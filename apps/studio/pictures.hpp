// Still images of clips, made on demand and cached in bounded memory.
#pragma once
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "apps/studio/studio.hpp"
#include "core/runtime/runtime.hpp"
#include "kinora/abi/workers.h"
#include "kinora/sample.hpp"

namespace kinora::studio {

using Picture = std::shared_ptr<const std::string>;  // a JPEG; null: it could not be made

// Images by key in a bounded number of bytes; the least recently used are evicted first. That one could not be made is
// known for kAgain only: a busy machine may have been the reason. [owner-thread]
class PictureCache {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kAgain{20};
  explicit PictureCache(size_t bytes) : limit_(bytes) {}
  std::optional<Picture> find(const std::string& key, Time now) {
    const auto at = kept_.find(key);
    if (at == kept_.end() || !contains(key, now)) return std::nullopt;
    order_.splice(order_.begin(), order_, at->second.place);
    return at->second.picture;
  }
  bool contains(const std::string& key, Time now) const {
    const auto at = kept_.find(key);
    return at != kept_.end() && (at->second.picture || now - at->second.made < kAgain);
  }
  // The newest entry stays, whatever its size.
  void keep(const std::string& key, Picture picture, Time now) {
    drop(key);
    order_.push_front(key);
    bytes_ += size(key, picture);
    kept_[key] = {std::move(picture), order_.begin(), now};
    while (bytes_ > limit_ && order_.size() > 1) drop(std::string(order_.back()));
  }
  size_t bytes() const { return bytes_; }

 private:
  struct Kept {
    Picture picture;
    std::list<std::string>::iterator place;
    Time made;
  };
  static size_t size(const std::string& key, const Picture& picture) {
    constexpr size_t kEntry = 256;  // bytes for nodes of the map and the list
    return kEntry + 2 * key.size() + (picture ? picture->size() : 0);
  }
  void drop(const std::string& key) {
    const auto at = kept_.find(key);
    if (at == kept_.end()) return;
    bytes_ -= size(key, at->second.picture);
    order_.erase(at->second.place);
    kept_.erase(at);
  }

  const size_t limit_;
  size_t bytes_ = 0;
  std::unordered_map<std::string, Kept> kept_;
  std::list<std::string> order_;  // most recently used first
};

// Decodes one frame of a video at a time in a separate process: videos come from anyone, and a decoder
// that crashes, hangs or fills the memory must not take down the studio.
class VideoDecoder {
 public:
  static constexpr int kHeight = 180;       // height of its frames, pixels
  static constexpr double kSeconds = 10.0;  // time limit of a frame
  // Throws Error if this program cannot start worker processes.
  explicit VideoDecoder(core::Runtime&);
  ~VideoDecoder() { end(); }
  VideoDecoder(const VideoDecoder&) = delete;
  VideoDecoder& operator=(const VideoDecoder&) = delete;

  // [owner-thread] A sample with the tensor frames [1, kHeight, W, 3]. The process starts with the first
  // frame and serves until it ends. If it was killed from outside, it is replaced and the frame is tried
  // once more. Throws Error.
  Sample frame(const std::filesystem::path& video, int64_t first);

 private:
  Sample decoded(const std::filesystem::path& video, int64_t first);
  void end();

  const kinora_workers_api& workers_;
  const std::string options_;
  kinora_worker* worker_ = nullptr;
};

// HTTP entity tag, in quotes, of what get() returns; it changes with the footage.
std::string entity_tag(const PictureSource&);

// [any-thread]
class Pictures {
 public:
  // `bytes`: limit of all cached images.
  Pictures(core::Runtime& runtime, size_t bytes) : runtime_(runtime), kept_(bytes) {}

  // A JPEG of the middle frame of the range: clips fade in and out. null if it cannot be made, which is cached for a
  // while. Two are made at once, each by a decoder process; further calls wait.
  Picture get(const PictureSource&);

 private:
  Picture make(VideoDecoder&, const PictureSource&) const;
  std::unique_ptr<VideoDecoder> taken();  // call under the lock

  core::Runtime& runtime_;
  std::mutex mutex_;
  std::condition_variable free_;
  std::set<std::string> making_;
  std::list<std::unique_ptr<VideoDecoder>> idle_;
  PictureCache kept_;
};

}  // namespace kinora::studio
