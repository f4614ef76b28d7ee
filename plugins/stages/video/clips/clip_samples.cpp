#include "clips/clip_samples.hpp"

#include <cmath>

#include <fmt/format.h>

#include "kinora/bins.hpp"

namespace kinora::video {

using nlohmann::json;

namespace {

// Times are whole microseconds. If the rate gives the same time up to rounding, the rate's exact value is
// used.
double seconds_at(int64_t frames, int64_t microseconds, double fps) {
  constexpr double kRounding = 1.001e-6;  // error of a difference of two times
  const double by_rate = static_cast<double>(frames) / fps, shown = static_cast<double>(microseconds) / 1e6;
  return std::abs(shown - by_rate) < kRounding ? by_rate : shown;
}

// Moves results of earlier stages for the whole video below film_facts; totals over clips would count them
// once per clip.
void set_apart(json& facts) {
  json of_video = json::object();
  const auto take = [&](const char* name) {
    const auto at = facts.find(name);
    if (at == facts.end()) return;
    of_video[name] = std::move(*at);
    facts.erase(at);
  };
  for (const char* name : {"scores", "usage", "ocr", "errors", "embeddings", "filter.endpoint"}) take(name);
  if (const auto caption = facts.find("caption"); caption != facts.end())
    if (!caption->is_object() || caption->value("by", json()) != "user") take("caption");
  if (!of_video.empty()) facts["film_facts"] = std::move(of_video);
}

}  // namespace

std::string clip_key(const Sample& video, int64_t number) {
  return fmt::format("{}-{:04}", video.key(), number);
}

double seconds_of(const Range& range, const ClipSpan& span, double fps) {
  return seconds_at(range.end - range.first, span.end_us - span.start_us, fps);
}

Sample clip_sample(const Sample& video, int64_t number, const Range& range, double fps,
                   const ClipSpan& span) {
  Sample clip(clip_key(video, number));
  auto facts = facts_of(video);
  facts.erase("damaged");    // concerns the video, not the clip
  facts.erase("frames_at");  // times of the video's frames
  set_apart(facts);
  facts.update({{"film", video.key()},
                {"first_frame", range.first},
                {"end_frame", range.end},
                {"frames", range.end - range.first},
                {"frames_estimated", false},
                {"start_s", seconds_at(range.first, span.start_us, fps)},
                {"end_s", seconds_at(range.end, span.end_us, fps)},
                {"duration_s", seconds_of(range, span, fps)},
                {"container", "mp4"},
                {"codec", "h264"}});
  clip.set("json", facts.dump());
  // A caption by the user applies to the clips too.
  const auto caption = facts.find("caption");
  if (caption != facts.end() && caption->is_object())
    if (const auto text = video.text("txt")) clip.set("txt", *text);
  return clip;
}

json bin_facts(const Bin& bin) {
  const auto or_null = [](const std::optional<std::string>& name) { return name ? json(*name) : json(); };
  return {
      {"resolution", bin.resolution}, {"aspect", or_null(bin.aspect)}, {"duration", or_null(bin.duration)}};
}

void fill_clip(Sample& sample, Clip clip) {
  MemorySource source{std::span<const uint8_t>(clip.bytes)};
  auto own = facts_of(probe(source, std::string(sample.key())));
  own.erase("frames");  // set from the range, not from headers
  own.erase("frames_estimated");
  auto facts = facts_of(sample);
  if (!own.contains("audio")) facts.erase("audio");
  facts.update(own);
  facts["bin"] = bin_facts(bin_of(own.at("width").get<double>() * own.at("sample_aspect").get<double>(),
                                  own.at("height"), own.at("duration_s")));
  facts["copied"] = clip.copied;
  if (clip.samples.count() > 0) set_frames(sample, facts, std::move(clip.samples));
  sample.set("json", facts.dump());
  sample.set("mp4", std::move(clip.bytes));
}

void set_frames(Sample& sample, json& facts, SampledFrames frames) {
  facts["frames_at"] = frames.at;
  const int64_t count = frames.count();
  sample.set_tensor("frames", std::move(frames.pixels), {count, frames.height, frames.width, 3},
                    KINORA_DL_UINT, 8);
}

std::set<std::string> ended_clips(const Sample& video) {
  std::set<std::string> keys;
  const auto text = video.text("ended.json");
  if (!text) return keys;
  const auto list = json::parse(*text, nullptr, false);
  const auto wrong = [&] {
    return Error(KINORA_ERROR_DATA,
                 "sample '" + std::string(video.key()) +
                     "': its field ended.json is not an array of keys; remove the folder of the "
                     "interrupted run");
  };
  if (!list.is_array()) throw wrong();
  for (const auto& key : list) {
    if (!key.is_string()) throw wrong();
    keys.insert(key);
  }
  return keys;
}

Crop crop_of(const Sample& video) {
  const json facts = facts_of(video);
  if (!facts.contains("crop") || facts["crop"].is_null()) return {};
  const auto& c = facts["crop"];
  for (const char* name : {"x", "y", "width", "height"})
    if (!c.is_object() || !c.contains(name) || !c[name].is_number_integer())
      throw Error(KINORA_ERROR_DATA,
                  "sample '" + std::string(video.key()) +
                      "': the fact crop must be {x, y, width, height} in whole pixels; run "
                      "filter.letterbox, or set crop = false");
  return {c["x"], c["y"], c["width"], c["height"]};
}

}  // namespace kinora::video
