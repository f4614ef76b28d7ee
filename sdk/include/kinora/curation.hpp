// Conventions of curating stages: the frames of a sample, its facts, and the shot that a frame belongs to.
// Needs nlohmann-json.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kinora/sample.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// The tensor `frames`: uint8 [count, height, width, 3], RGB, upright; borrowed from the sample.
struct Pictures {
  const uint8_t* data = nullptr;
  int64_t count = 0, height = 0, width = 0;
  const uint8_t* frame(int64_t i) const { return data + i * height * width * 3; }
};

// Error(KINORA_ERROR_NOT_FOUND) if the sample has none; the message says which option to set.
// Error(KINORA_ERROR_DATA) if they have another format, are empty, or are larger than `most_side` pixels.
inline Pictures pictures_of(const Sample& sample, int64_t most_side = INT32_MAX) {
  const kinora_dl_tensor* t = sample.tensor("frames");
  const std::string key(sample.key());
  if (!t)
    throw Error(KINORA_ERROR_NOT_FOUND,
                "sample '" + key +
                    "' has no frames; set sample_fps of video.clips or clip.transcode for clips, or "
                    "sample_every of shots.* for whole videos, or put "
                    "stage/video.read before");
  if (t->ndim != 4 || t->shape[3] != 3 || t->code != KINORA_DL_UINT || t->bits != 8 || t->lanes != 1 ||
      t->device_type != KINORA_DL_CPU || !t->data || !is_row_major(*t))
    throw Error(KINORA_ERROR_DATA,
                "sample '" + key + "': its frames must be uint8 [T, H, W, 3] on the CPU, row-major");
  if (t->shape[0] < 1 || t->shape[1] < 1 || t->shape[2] < 1)
    throw Error(KINORA_ERROR_DATA, "sample '" + key + "': its frames are empty");
  if (std::max(t->shape[1], t->shape[2]) > most_side)
    throw Error(KINORA_ERROR_DATA, "sample '" + key + "': its frames of " + std::to_string(t->shape[2]) +
                                       "x" + std::to_string(t->shape[1]) + " pixels are larger than " +
                                       std::to_string(most_side) +
                                       "; set sample_height, or height of stage/video.read");
  return {static_cast<const uint8_t*>(t->data) + t->byte_offset, t->shape[0], t->shape[1], t->shape[2]};
}

// Fields that hold a sample's video, and those that hold a picture. A picture next to a video is not the
// sample's medium.
inline constexpr const char* kVideoFields[] = {"mp4", "webm", "mkv", "mov", "avi", "ogv", "mpg"};
inline constexpr const char* kPictureFields[] = {"jpg", "jpeg", "png", "webp"};

// Whether the sample is a picture, as stage/picture.read emits it: without length, motion, shots and sound. Stages
// that measure or cut these emit it unchanged.
inline bool is_picture(const Sample& sample) {
  const auto has = [&](const char* field) { return sample.bytes(field).has_value(); };
  return !has("url") && std::none_of(std::begin(kVideoFields), std::end(kVideoFields), has) &&
         std::any_of(std::begin(kPictureFields), std::end(kPictureFields), has);
}

// A field that is JSON; `otherwise` if the sample has none. Error(KINORA_ERROR_DATA) if it is not an object.
inline nlohmann::json json_field(const Sample& sample, const char* name,
                                 nlohmann::json otherwise = nlohmann::json::object()) {
  const auto text = sample.text(name);
  if (!text) return otherwise;
  auto value = nlohmann::json::parse(*text, nullptr, false);
  if (!value.is_object())
    throw Error(KINORA_ERROR_DATA,
                "sample '" + std::string(sample.key()) + "': its field " + name + " is not a JSON object");
  return value;
}

// Any JSON as text; bytes that are not UTF-8 are replaced.
inline std::string json_text(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The object `facts[name]`; replaces a value that is not an object.
inline nlohmann::json& object_in(nlohmann::json& facts, const char* name) {
  auto& value = facts[name];
  if (!value.is_object()) value = nlohmann::json::object();
  return value;
}

// Sets facts["scores"][rule]. Infinities and NaN are omitted, since JSON does not have them.
inline void note_score(nlohmann::json& facts, const std::string& rule, double score) {
  if (std::isfinite(score)) object_in(facts, "scores")[rule] = score;
}

// Sets facts["bounds"][rule] for a dropped sample: the bound that its score violates, {"at_least": low} or
// {"at_most": high}.
inline void note_bound(nlohmann::json& facts, const std::string& rule, double score, double low,
                       double high) {
  const bool is_above = score > high;
  object_in(facts, "bounds")[rule] = {{is_above ? "at_most" : "at_least", is_above ? high : low}};
}

// Sets facts["embeddings"][name]: the component or file that made field NAME.npy, its length, and, if `eps`
// is above 0, the largest cosine distance at which it says that two clips are copies. dedup.semantic uses
// that as its default.
inline void note_embedding(nlohmann::json& facts, const std::string& name, const std::string& model,
                           int64_t size, double eps = 0) {
  auto& about = object_in(facts, "embeddings")[name];
  about = {{"model", model}, {"size", size}};
  if (eps > 0) about["eps"] = eps;
}

namespace detail {

inline Error wrong_sample(const Sample& sample, const std::string& what) {
  return Error(KINORA_ERROR_DATA, "sample '" + std::string(sample.key()) + "': " + what);
}

inline std::vector<double> numbers_in(const Sample& sample, const nlohmann::json& object, const char* name) {
  const auto at = object.find(name);
  std::vector<double> out;
  if (at == object.end() || !at->is_array())
    throw wrong_sample(sample, std::string(name) + " must be a list");
  for (const auto& value : *at) {
    if (!value.is_number())
      throw wrong_sample(sample, std::string("an entry of ") + name + " is not a number");
    out.push_back(value.get<double>());
  }
  if (!std::is_sorted(out.begin(), out.end()))
    throw wrong_sample(sample, std::string(name) + " does not rise");
  return out;
}

}  // namespace detail

// Start times in seconds of a video's shots after the first: times_us of shots.json if present, else
// its cuts divided by fps. Error(KINORA_ERROR_DATA) if it has neither, or not one time per cut.
inline std::vector<double> shot_starts(const Sample& video, const nlohmann::json& shots) {
  std::vector<double> cuts = detail::numbers_in(video, shots, "cuts");
  if (shots.contains("times_us")) {
    std::vector<double> times = detail::numbers_in(video, shots, "times_us");
    if (times.size() != cuts.size())
      throw detail::wrong_sample(video, "shots.json must have one of times_us for each cut");
    for (double& t : times) t /= 1e6;
    return times;
  }
  const auto fps = shots.find("fps");
  if (fps == shots.end() || !fps->is_number() || fps->get<double>() <= 0)
    throw detail::wrong_sample(video, "shots.json has neither times_us nor fps; put a stage shots.* before");
  for (double& cut : cuts) cut /= fps->get<double>();
  return cuts;
}

// The shot number of each of `count` frames, by fact frames_at. Error(KINORA_ERROR_DATA) if that
// does not have `count` times.
inline std::vector<size_t> shots_of_frames(const Sample& video, const std::vector<double>& starts,
                                           int64_t count) {
  const auto facts = json_field(video, "json");
  if (!facts.contains("frames_at"))
    throw detail::wrong_sample(
        video,
        "its frames have no times, so their shots are unknown; let shots.* sample them (sample_every)");
  const auto times = detail::numbers_in(video, facts, "frames_at");
  if (times.size() != static_cast<size_t>(count))
    throw detail::wrong_sample(video, "it has " + std::to_string(count) + " frames and " +
                                          std::to_string(times.size()) + " times in frames_at");
  std::vector<size_t> out;
  constexpr double kRounding = 1e-6;  // rounding error of times in microseconds
  for (const double t : times)
    out.push_back(
        static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), t + kRounding) - starts.begin()));
  return out;
}

}  // namespace kinora

KINORA_SDK_END
