#include <algorithm>

#include "core/base/facts.hpp"
#include "plugins/jobs/report/sections.hpp"

namespace kinora::core::report {
namespace {

constexpr size_t kMostVideos = 24;

json video_data(Pictures& pictures, const std::filesystem::path& file) {
  auto path = file;
  const auto text = read_file(path.replace_extension(".json"), 1 << 20);
  const json facts = text ? parse_facts(*text) : json();
  json out{{"prompt", text_at(facts, "prompt")}, {"sampler", text_at(facts, "sampler")}};
  for (const char* key : {"temperature", "steps", "nfe", "guidance", "width", "height", "frames", "fps", "seconds"})
    out[key] = or_null(number_at(facts, key));
  const bool has_seed = facts.is_object() && facts.contains("seed") && facts["seed"].is_number();
  out["seed"] = has_seed ? facts["seed"].dump() : "";  // text: it may have more digits than a double
  out["video"] = pictures.media.mp4(file);
  out["strip"] = pictures.media.png(path.replace_extension(".png"));
  return out;
}

}  // namespace

json videos_of(Pictures& pictures, const JobRecord& job) {
  const auto files = files_in(job.folder / "videos", ".mp4");
  const size_t shown = std::min(files.size(), kMostVideos);
  json out{{"list", json::array()}, {"more", files.size() - shown}};
  for (size_t i = 0; i < shown; ++i) out["list"].push_back(video_data(pictures, files[i]));
  return out;
}

}  // namespace kinora::core::report
