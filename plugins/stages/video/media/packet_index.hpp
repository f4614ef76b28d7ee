#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "media/decoder.hpp"
#include "media/parameter_sets.hpp"

namespace kinora::video {

// A group of pictures that can be decoded on its own: from one IDR to the next.
struct Gop {
  int64_t first = 0, end = 0;  // frames, by Decoder's indices
  int64_t packets = 0;
  int64_t dts = 0;        // of the first packet, in ticks
  bool copyable = false;  // all pictures are shown, and the group has no parameter sets of its own
};

// Positions of a video's frames and groups of pictures, known from its packets without decoding.
struct PacketIndex {
  std::shared_ptr<const FrameIndex> frames;
  std::vector<Gop> gops;     // only for H.264 with its parameter sets in avcC, else empty; ascending
  ParameterSets parameters;  // of that H.264 stream
  int64_t video_end = 0;     // end of the last frame, in ticks

  int64_t end_of(const Range& range) const {
    const auto at = static_cast<size_t>(range.end);
    return at < frames->pts.size() ? frames->pts[at] : video_end;
  }
};

// Reads the whole video once, with about 40 bytes of memory per frame. Null if packets do not determine the
// indices: a timestamp is missing or repeated, a packet is damaged, or the number of shown frames is not
// `frames`. MediaError as in Decoder. each: called once per packet; an exception from it ends the reading.
std::shared_ptr<const PacketIndex> index_packets(ByteSource& video, const std::string& name, int64_t frames,
                                                 const std::function<void()>& each = {});

// Number of frames that a player shows of a Matroska or WebM file, without decoding it. Nothing: another container, a
// codec of which a packet may not be a frame, packets that do not determine it (see index_packets()), or pictures that
// are shown before the first key frame. MediaError as in Decoder.
std::optional<int64_t> count_packets(ByteSource& video, const std::string& name);

// Returns the longest run of copyable groups within the range; empty (first == end) if there is none.
Range whole_gops(const PacketIndex& index, const Range& range);

}  // namespace kinora::video
