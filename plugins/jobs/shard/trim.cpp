#include "plugins/jobs/shard/trim.hpp"

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "kinora/bins.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

constexpr double kLongest = 1e6;  // seconds, longer than any clip
constexpr std::string_view kDescriber = "caption.describe";

using StageUse = ClipTrimmer::StageUse;

// The stages that make the part of a clip: the encoder as the job that made the clip used it, then those of its
// stages that show or describe a clip.
std::vector<StageUse> stages_of(const fs::path& curated) {
  std::vector<StageUse> out{{"clip.transcode",
                             {{"min_length", 0.0},
                              {"min_frames", 1},
                              {"edge_crop", 0.0},
                              {"max_length", kLongest},
                              {"copy", "auto"}}}};
  const json about = object_in_file(curated / "job.json");
  for (const json& component : about.value("components", json::array())) {
    const std::string id = text_in(component, "id");
    const json& options = object_in(component, "options");
    if (id == "stage/clip.transcode" || id == "stage/video.clips")
      for (const char* name : {"crf", "preset", "encoder", "sample_fps", "sample_height"})
        if (options.contains(name)) out.front().options[name] = options[name];
    for (const std::string_view name : {std::string_view("clip.preview"), kDescriber})
      if (id == fmt::format("stage/{}", name)) out.push_back({std::string(name), options});
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
    : runtime_(runtime), uses_(stages_of(curated)) {}

// Unwanted frames count as transitions, whose frames are in no clip.
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
  if (stages_.empty())
    for (const auto& [id, options] : uses_) stages_.emplace_back(runtime_, id, options);
  Sample made = stages_.front()(whole);
  for (size_t i = 1; i < stages_.size(); ++i) made = stages_[i](made);
  for (const char* field : {"mp4", "preview.webp", "preview.mp4"})
    if (const auto bytes = made.text(field)) sample.set(field, *bytes);
  const json of_part = parse_facts(made.need("json"));
  set_length(facts, number_in(of_part, "duration_s"));
  if (const auto caption = made.text("txt");
      caption && text_in(object_in(facts, "caption"), "by") == kDescriber) {
    sample.set("txt", *caption);
    facts["measured"] = object_in(of_part, "measured");
  }
}

}  // namespace kinora::core
