#include "clips/earlier_frames.hpp"

#include <algorithm>
#include <cmath>

#include "kinora/curation.hpp"
#include "media/convert.hpp"
#include "media/scaler.hpp"

namespace kinora::video {
namespace {

constexpr double kFrameRounding = 1e-6;  // seconds

double number(const nlohmann::json& facts, const char* name) {
  const auto at = facts.find(name);
  return at != facts.end() && at->is_number() ? at->get<double>() : 0;
}

// Selects the indices: each selected frame is shown within one frame of its due time.
std::optional<std::vector<int64_t>> picked(const Sample& sample, int64_t count, double fps) {
  const auto facts = json_field(sample, "json");
  const double rate = number(facts, "fps"), length = number(facts, "duration_s");
  if (!facts.contains("frames_at") || !(rate > 0) || !(length > 0)) return std::nullopt;
  const auto times = detail::numbers_in(sample, facts, "frames_at");
  if (static_cast<int64_t>(times.size()) != count) return std::nullopt;
  const double frame = 1 / rate + kFrameRounding;
  std::vector<int64_t> out;
  double next = 0;  // multiple of 1 / fps
  for (int64_t i = 0; i < count; ++i) {
    const double seconds = times[static_cast<size_t>(i)] + kFrameRounding;
    if (seconds < next / fps) continue;
    if (seconds > next / fps + frame) return std::nullopt;
    out.push_back(i);
    next = std::floor(seconds * fps) + 1;
  }
  if (next / fps + frame < length) return std::nullopt;
  return out;
}

}  // namespace

std::optional<SampledFrames> earlier_frames(const Sample& sample, double fps, int64_t height, int64_t most) {
  if (sample.tensor("frames") == nullptr) return std::nullopt;
  Pictures given;
  std::optional<std::vector<int64_t>> places;
  try {
    given = pictures_of(sample, Limits{}.max_side);
    places = picked(sample, given.count, fps);
  } catch (const Error&) {  // frames or times of another kind
    return std::nullopt;
  }
  if (!places || given.height < height) return std::nullopt;
  SampledFrames out;
  out.height = height;
  out.width = std::max<int64_t>(
      1, std::lround(static_cast<double>(given.width * height) / static_cast<double>(given.height)));
  const auto bytes = static_cast<size_t>(out.height * out.width * 3);
  if (places->size() * bytes > static_cast<size_t>(most)) return std::nullopt;
  out.pixels.resize(places->size() * bytes);
  Scaler scaler({.width = static_cast<int>(out.width), .height = static_cast<int>(out.height)});
  uint8_t* to = out.pixels.data();
  for (const int64_t i : *places) {
    if (given.height == height) {
      std::copy_n(given.frame(i), bytes, to);
    } else {
      scaler.bytes(
          *picture_of_rgb(given.frame(i), static_cast<int>(given.width), static_cast<int>(given.height)), to);
    }
    to += bytes;
    out.at.push_back(static_cast<double>(out.at.size()) / fps);
  }
  return out;
}

}  // namespace kinora::video
