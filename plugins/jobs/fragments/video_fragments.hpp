// Videos that play while they grow, for jobs, which do not link FFmpeg.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace kinora::core {

// All functions throw kinora::Error.
class VideoFragments {
 public:
  static constexpr const char* kId = "service/video-fragments";
  virtual ~VideoFragments() = default;

  struct Form {
    int64_t height = 0, width = 0;  // pixels; an odd last row or column is cut off
    double fps = 24;                // rounded to thousandths
    int64_t crf = 18;               // H.264 quality, 0 to 51, lower is better
    std::string preset = "ultrafast";
    int64_t threads = 1;    // the bytes depend on it
    std::string comment{};  // metadata that is known at the start
  };

  enum class Kind { init, fragment };
  // First the init segment, once, then each fragment whole; the bytes are borrowed for the call.
  using Sink = std::function<void(std::span<const uint8_t> bytes, Kind kind)>;

  // One growing video: fragmented MP4 in H.264, in which each fragment begins with a key frame. After an error, also
  // of the sink, only destruction is allowed. [owner-thread] It may be another thread than the one that opened it.
  class Stream {
   public:
    virtual ~Stream() = default;
    // Encodes [count, height, width, 3] uint8 as one fragment; calls the sink before it returns.
    virtual void add(const uint8_t* frames, int64_t count) = 0;
    // Call once, after the last fragment.
    virtual void finish() = 0;
    // The MIME type with its codec, for browsers: video/mp4; codecs="avc1.42c01f".
    virtual const std::string& mime() const = 0;
  };
  virtual std::unique_ptr<Stream> open(const Form&, Sink) const = 0;

  // Copies the packets of the file that a stream made, bit for bit, to `result`, an MP4 with its index in front and
  // this comment. `result` appears complete or not at all, and may be the same file.
  virtual void remux(const std::filesystem::path& fragmented, const std::filesystem::path& result,
                     const std::string& comment) const = 0;
};

}  // namespace kinora::core
