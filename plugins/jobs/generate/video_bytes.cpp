#include "plugins/jobs/generate/video_bytes.hpp"

#include <algorithm>

namespace kinora::core {

VideoBytes::Latent VideoBytes::latent(const nlohmann::json& fields) const {
  const auto& info = pipeline_.tokenizer_info();
  const auto pixels = [&](const char* name) { return fields.at(name).get<int64_t>(); };
  return {1 + (pixels("num_frames") - 1 + info.time - 1) / info.time,
          pixels("height") / info.height * (pixels("width") / info.width)};
}

int64_t VideoBytes::kept(int64_t frames) const {
  const int64_t window = pipeline_.window_chunks();
  if (window == 0) return frames;
  return std::min(frames, pipeline_.spec().rule.chunks().begin(pipeline_.sink_chunks() + window));
}

int64_t VideoBytes::of(const nlohmann::json& fields) const {
  const auto [frames, places] = latent(fields);
  // Float32 as it is made and as it is decoded, and float64 noise.
  const int64_t latents = 16 * pipeline_.shape()[0] * frames * places;
  const auto& rule = pipeline_.spec().rule;
  const int64_t all = fields.at("num_frames");
  const int64_t at_once =
      rule.teacher_forcing ? std::min(all, rule.chunk * pipeline_.tokenizer_info().time) : all;
  // RGB in float32 as the decoder gives them, and in bytes.
  const int64_t decoded =
      15 * at_once * fields.at("height").get<int64_t>() * fields.at("width").get<int64_t>();
  return latents + decoded + text_ +
         static_cast<int64_t>(of_place_ * static_cast<double>(kept(frames) * places));
}

void VideoBytes::learn(const nlohmann::json& fields, const inference::Session::Made& made) {
  const auto [frames, places] = latent(fields);
  of_place_ = static_cast<double>(made.cache_bytes - made.text_bytes) /
              static_cast<double>(std::max<int64_t>(kept(frames) * places, 1));
  text_ = std::max<int64_t>(text_, made.text_bytes);
}

}  // namespace kinora::core
