// Decodes frames of a video with a maker's own decoder.
#pragma once

#include <memory>
#include <optional>

#include "clips/clip_maker.hpp"

namespace kinora::video {

inline Decoder own_decoder(const MakerContext& context, const std::shared_ptr<const FrameIndex>& index) {
  DecoderOptions options = context.options.decoder;
  options.threads = context.options.threads;
  if (index) options.index = index;
  return Decoder(context.film, context.name, options);
}

// Passes the frames of the range to `take` in order until it returns false. Returns the first frame that the video lacks.
template <class Take>
std::optional<int64_t> pass(Decoder& decoder, const Range& range, const Take& take) {
  decoder.skip_to(range.first);
  for (int64_t at = range.first; at < range.end; ++at) {
    const Frame* frame = decoder.next();
    if (frame == nullptr || frame->index != at) return at;
    if (!take(*frame)) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace kinora::video
