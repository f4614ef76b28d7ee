// The generated videos, each playable in the page, with its frames side by side.
#include <algorithm>

#include "plugins/jobs/report/sections.hpp"
#include "core/base/facts.hpp"
#include "plugins/jobs/report/words.hpp"

namespace kinora::core::report {
namespace {

constexpr size_t kMostVideos = 24;

std::string whole(const json& facts, const char* key) {
  const auto value = number_at(facts, key);
  return value ? number(*value, 15) : "";
}

std::vector<Fact> video_facts(const json& facts) {
  std::vector<Fact> out;
  const auto add = [&](const char* name, std::string value) {
    if (!value.empty()) out.push_back({name, std::move(value)});
  };
  add("seed",
      facts.is_object() && facts.contains("seed") && facts["seed"].is_number() ? facts["seed"].dump() : "");
  add("sampler", text_at(facts, "sampler"));
  add("temperature", whole(facts, "temperature"));
  add("steps", whole(facts, "steps"));
  add("model calls", whole(facts, "nfe"));
  add("guidance", whole(facts, "guidance"));
  const std::string height = whole(facts, "height"), width = whole(facts, "width");
  if (!height.empty() && !width.empty()) add("size", width + " × " + height);
  add("frames", whole(facts, "frames"));
  if (const auto fps = number_at(facts, "fps")) add("rate", number(*fps, 5) + "\u00A0fps");
  if (const auto seconds = number_at(facts, "seconds")) add("made in", duration(*seconds));
  return out;
}

void write_player(Html& out, const Embedded& video, const json& facts, const std::string& prompt) {
  const std::string width = std::to_string(std::clamp<int64_t>(count_at(facts, "width"), 1, 1 << 14));
  const std::string height = std::to_string(std::clamp<int64_t>(count_at(facts, "height"), 1, 1 << 14));
  if (video.uri.empty()) return picture(out, video, {"", 16, 9});
  const std::string shape = "aspect-ratio:" + width + "/" + height;
  out.leaf("video", {{"controls", ""},
                     {"loop", ""},
                     {"muted", ""},
                     {"autoplay", ""},
                     {"playsinline", ""},
                     {"width", width},
                     {"height", height},
                     {"style", shape},
                     {"aria-label", "Video generated from: " + prompt},
                     {"src", video.uri}});
}

void write_video(Page& page, const std::filesystem::path& file) {
  auto& out = page.out;
  auto path = file;
  const auto text = read_file(path.replace_extension(".json"), 1 << 20);
  json facts = text ? parse_facts(*text) : json::object();
  if (!facts.is_object()) facts = json::object();
  const std::string prompt = text_at(facts, "prompt");
  const Embedded video = page.media.mp4(file), strip = page.media.png(path.replace_extension(".png"));
  out.in("article", {{"class", "video"}}, [&] {
    out.in("figure", {}, [&] {
      write_player(out, video, facts, prompt);
      out.in("figcaption", {}, [&] {
        out.leaf("q", {{"class", "prompt"}}, prompt.empty() ? "(no prompt)" : prompt);
        fact_list(out, video_facts(facts));
      });
    });
    out.in("div",
           {{"class", "scroll strip"},
            {"role", "region"},
            {"tabindex", "0"},
            {"aria-label", "Frames of the video"}},
           [&] {
             picture(out, strip,
                     {"The frames of the video, from left to right", std::max(strip.width, 16),
                      std::max(strip.height, 1)});
           });
  });
}

}  // namespace

void write_videos(Page& page) {
  const auto jobs = page.run.of_kind("generate");
  if (jobs.empty()) return;
  section(page, "videos", "Generated videos", [&] {
    for (const JobRecord* job : jobs) {
      if (!job_heading(page, *job)) continue;
      const auto files = files_in(job->folder / "videos", ".mp4");
      if (files.empty()) note(page.out, "There are no videos in the folder of job “" + job->name + "”.");
      for (size_t i = 0; i < std::min(files.size(), kMostVideos); ++i) write_video(page, files[i]);
      if (files.size() > kMostVideos)
        note(page.out, counted(static_cast<int64_t>(files.size() - kMostVideos), "more video") +
                           " in the folder of job “" + job->name + "”.");
    }
  });
}

}  // namespace kinora::core::report
