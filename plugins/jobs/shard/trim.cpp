#include "plugins/jobs/shard/trim.hpp"

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "kinora/bins.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

constexpr double kLongest = 1e6;  // seconds, longer than any clip

// Options of the encoder that made the job's clips.
json encoder_options(const fs::path& curated) {
  json out{
      {"min_length", 0.0}, {"min_frames", 1}, {"edge_crop", 0.0}, {"max_length", kLongest}, {"copy", "auto"}};
  const json about = object_in_file(curated / "job.json");
  for (const json& component : about.value("components", json::array())) {
    const std::string id = text_in(component, "id");
    if (id != "stage/clip.transcode" && id != "stage/video.clips") continue;
    for (const char* name : {"crf", "preset", "encoder"})
      if (const json& options = object_in(component, "options"); options.contains(name))
        out[name] = options[name];
  }
  return out;
}

void set_length(json& facts, double seconds) {
  facts["duration_s"] = seconds;
  if (facts.contains("start_s")) facts["end_s"] = number_in(facts, "start_s") + seconds;
  if (!object_in(facts, "bin").empty()) {
    const auto name = kinora::bin_of(1, 1, seconds).duration;
    facts["bin"]["duration"] = name ? json(*name) : json();
  }
}

}  // namespace

json trimmed_facts(json facts, const std::string& key, const Trim& trim) {
  const auto all = static_cast<int64_t>(number_in(facts, "frames"));
  const double fps = number_in(facts, "fps");
  if (trim.end > all || !(fps > 0) || flag_in(facts, "frames_estimated"))
    throw Error(
        KINORA_ERROR_DATA,
        fmt::format(
            "{}: it is trimmed to frames {} to {} and has {}; undo that in the studio, or trim it again", key,
            trim.first, trim.end, all));
  const int64_t left = trim.end - trim.first;
  if (left == all) return facts;
  facts["trimmed"] = {{"first", trim.first}, {"end", trim.end}, {"of", all}};
  facts["frames"] = left;
  if (facts.contains("first_frame")) {
    const auto first = static_cast<int64_t>(number_in(facts, "first_frame")) + trim.first;
    facts["first_frame"] = first;
    facts["end_frame"] = first + left;
  }
  if (facts.contains("start_s"))
    facts["start_s"] = number_in(facts, "start_s") + static_cast<double>(trim.first) / fps;
  set_length(facts, static_cast<double>(left) / fps);
  return facts;
}

ClipTrimmer::ClipTrimmer(Runtime& runtime, const fs::path& curated)
    : runtime_(runtime), options_(encoder_options(curated)) {}

// What is not wanted is a transition, whose frames are in no clip.
void ClipTrimmer::cut(Sample& sample, json& facts, const fs::path& video) {
  const json& trim = object_in(facts, "trimmed");
  const json others =
      json::array({json::array({0, trim.at("first")}), json::array({trim.at("end"), trim.at("of")})});
  Sample whole(std::string(sample.key()));
  whole.set("url", video.string());
  whole.set("shots.json", json{{"fps", facts.at("fps")},
                               {"frames", trim.at("of")},
                               {"cuts", json::array()},
                               {"transitions", others}}
                              .dump());
  if (!stage_) stage_.emplace(runtime_, "clip.transcode", options_);
  const Sample made = (*stage_)(whole);
  sample.set("mp4", made.need("mp4"));
  set_length(facts, number_in(parse_facts(made.need("json")), "duration_s"));
}

}  // namespace kinora::core
