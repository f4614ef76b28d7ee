#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "clips/clip_plan.hpp"
#include "media/decoder.hpp"
#include "media/parameter_sets.hpp"

namespace kinora::video {

// Pictures that can be decoded without any other, and need no other's bytes: from one IDR to the next.
struct Gop {
  int64_t first = 0, end = 0;  // frames, by Decoder's indices
  int64_t packets = 0;
  int64_t dts = 0;        // of the first packet, ticks
  bool copyable = false;  // all of it is shown, and it brings no parameter sets of its own
};

// Where a film's frames and groups of pictures lie, learnt by reading its packets and decoding none.
struct PacketIndex {
  std::shared_ptr<const FrameIndex> frames;
  std::vector<Gop> gops;     // of H.264 with its parameter sets in avcC, else empty; ascending
  ParameterSets parameters;  // of that H.264
  int64_t film_end = 0;      // ticks: when the last frame ends

  int64_t end_of(const Range& range) const {
    const auto at = static_cast<size_t>(range.end);
    return at < frames->pts.size() ? frames->pts[at] : film_end;
  }
};

// Reads the whole film once, keeping about 40 bytes a frame. Null when indices could not be told from
// packets: a timestamp is missing or repeated, a packet is damaged, or there are not exactly `frames` shown
// ones. MediaError as Decoder. each: called once a packet; what it throws ends the reading.
std::shared_ptr<const PacketIndex> index_packets(ByteSource& film, const std::string& name, int64_t frames,
                                                 const std::function<void()>& each = {});

// The longest run of copyable groups inside the range; empty (first == end) if there is none.
Range whole_gops(const PacketIndex& index, const Range& range);

}  // namespace kinora::video
