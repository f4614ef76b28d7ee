// Access to a sample's media, wherever its bytes are, and to its facts.
#pragma once
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "kinora/abi/stage.h"
#include "kinora/sample.hpp"
#include "media/byte_source.hpp"
#include "media/decoding.hpp"
#include "media/probe.hpp"

namespace kinora::video {

struct Media {
  std::unique_ptr<ByteSource> source;
  std::string name;  // for messages
};

// Opens field mp4 (or webm, mkv, mov, avi, ogv, mpg), whose bytes are borrowed from the sample, else the file
// that field url names, else a picture, field jpg (or jpeg, png, webp). Error(KINORA_ERROR_NOT_FOUND) if the sample has
// none of them.
Media open_media(const Sample& sample);

// Resources of a stage that decodes with these values of its options `threads` and `decoder`: as many cores,
// a hardware decoder if it uses one, and a process of its own if the engine supports it, because the media is
// untrusted.
inline kinora_resources reads_media(int64_t threads = 1, const std::string& decoder = "cpu") {
  return {
      sizeof(kinora_resources), 0, static_cast<double>(threads), 0.0, 0, 1, hardware_decoders(decoder), 0, 0};
}

// The facts that video.probe adds to a sample: times in seconds, sizes in pixels as stored; sample_aspect, the
// width of a pixel in its heights; what makes the picture upright: mirrored (left to right), then rotation in
// degrees clockwise.
nlohmann::json facts_of(const Probe& probe);

// Returns the sample's json field, an empty object if it has none. Error(KINORA_ERROR_DATA) if it is not a
// JSON object.
nlohmann::json facts_of(const Sample& sample);

// Runs f and turns its MediaError into Error(KINORA_ERROR_DATA), which fails the sample.
template <class F>
auto media_call(F&& f) {
  try {
    return f();
  } catch (const MediaError& e) {
    throw Error(KINORA_ERROR_DATA, e.what());
  }
}

}  // namespace kinora::video
