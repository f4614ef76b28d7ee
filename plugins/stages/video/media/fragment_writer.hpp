#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "media/byte_source.hpp"
#include "media/encoder.hpp"

namespace kinora::video {

// Writes a video that plays while it grows: fragmented MP4 with one encoder and one muxer. The bytes in the order of
// the sink's calls are a file, and each of its prefixes that ends after a fragment is one too.
//
//   init       boxes ftyp and moov, without samples
//   fragment   boxes moof and mdat of one group of pictures: begins with an instantaneous decoder refresh, has no B
//              frames, and starts where the last one ended (tfdt). All its addresses are relative to its moof
//
// This is what Media Source Extensions take (W3C, "ISO BMFF Byte Stream Format"). The clock's ticks are a whole number
// a frame.
//
// [owner-thread] Memory: one fragment. After an exception, also of the sink, only destruction is allowed.
class FragmentWriter {
 public:
  enum class Kind { init, fragment };
  // The bytes are borrowed for the call.
  using Sink = std::function<void(std::span<const uint8_t> bytes, Kind kind)>;

  // The options' time_base, key_interval and low_latency are the writer's own; audio is not supported. Metadata must
  // be known here, and can be replaced by remux_fragments(). MediaError as in Encoder.
  FragmentWriter(EncoderOptions options, Sink sink);
  ~FragmentWriter();
  FragmentWriter(FragmentWriter&&) noexcept;
  FragmentWriter& operator=(FragmentWriter&&) noexcept;

  // Encodes [count, H, W, 3] uint8 of the options' size (with its odd column or row) as one fragment, and calls the
  // sink: the first time with the init segment, then with the fragment. MediaError if count is below 1.
  void add(const uint8_t* frames, int64_t count);

  // Call once, after the last fragment: it gives the sink nothing. MediaError if there is none.
  void finish();

  // The MIME type with its codec (RFC 6381): video/mp4; codecs="avc1.42c01f".
  const std::string& mime() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Copies the packets of a fragmented video, bit for bit, into an MP4 with its index in front and this metadata (as for
// Mp4Writer). The video may end behind any fragment. `name` is for messages. MediaError if the bytes are not a video,
// have no frames or end within a fragment.
std::vector<uint8_t> remux_fragments(ByteSource& video, const std::string& name,
                                     const std::vector<std::pair<std::string, std::string>>& metadata);
// The same into a file, which is created or emptied, and is incomplete if this throws. Memory: its index.
void remux_fragments(ByteSource& video, const std::string& name,
                     const std::vector<std::pair<std::string, std::string>>& metadata,
                     const std::filesystem::path& result);

}  // namespace kinora::video
