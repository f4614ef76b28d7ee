#include "plugins/jobs/report/record.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/facts.hpp"
#include "core/base/regular_stream.hpp"

namespace kinora::core::report {
namespace {

namespace fs = std::filesystem;

json bound_of(const json& facts, const std::string& rule) {
  const json& bounds = object_at(object_at(facts, "bounds"), rule.c_str());
  for (const auto& [name, words] : {std::pair{"at_least", "at least"}, {"at_most", "at most"}})
    if (const auto bound = number_at(bounds, name)) return {words, *bound};
  return nullptr;
}

Item read_item(const json& line) {
  Item item;
  item.key = text_at(line, "key");
  item.parent = text_at(line, "parent");
  item.end = text_at(line, "end");
  item.stage = text_at(line, "stage");
  item.reason = text_at(line, "reason");
  item.caption = text_at(line, "caption");
  item.url = text_at(line, "url");
  item.damaged = text_at(line, "damaged");
  item.of = text_at(line, "of");
  item.score = number_at(line, "score");
  const auto consumed = line.find("consumed");
  item.consumed = consumed != line.end() && consumed->is_boolean() && consumed->get<bool>();
  const json& facts = object_at(line, "facts");
  item.bound = bound_of(facts, item.reason);
  if (number_at(facts, "first_frame")) item.first = count_at(facts, "first_frame");
  if (number_at(facts, "end_frame")) item.last = count_at(facts, "end_frame");
  item.width = static_cast<int>(std::clamp<int64_t>(count_at(facts, "width"), 0, 1 << 16));
  item.height = static_cast<int>(std::clamp<int64_t>(count_at(facts, "height"), 0, 1 << 16));
  return item;
}

// A video that was cut does not count; its clips do.
void add_scores(Scores& scores, const json& line, const Item& item) {
  if (item.consumed) return;
  const bool is_filtered = item.end == "filtered";
  scores.add(object_at(line, "facts"), is_filtered ? item.reason : "",
             is_filtered && item.score ? *item.score : std::nan(""));
}

// The score that made the cut before frame `cut`; nothing if the kept scores do not say it, because another detector
// made the cut or the scores are no measure of it. TransNet V2 scores the frame with which a shot ends, in a stretch
// of frames above 0.2, of which one is the cut; the others score the frame with which one begins.
std::optional<double> score_of_cut(const std::vector<double>& scores, const json& shots,
                                   const Detector& detector, int64_t cut) {
  constexpr double kQuiet = 0.2;
  const auto of_detectors = object_at(shots, "detectors");
  if (const auto own = of_detectors.find(detector.name); own != of_detectors.end()) {
    const auto cuts = numbers_at(*own, "cuts");
    if (std::find(cuts.begin(), cuts.end(), static_cast<double>(cut)) == cuts.end()) return std::nullopt;
  }
  const auto at = static_cast<size_t>(cut);
  if (at >= scores.size() || detector.name == "threshold" || detector.name == "fixed") return std::nullopt;
  if (detector.name != "transnetv2") return scores[at];
  double out = scores[at - 1];
  for (size_t i = at - 1; i > 0 && scores[i] > kQuiet; --i) out = std::max(out, scores[i - 1]);
  for (size_t i = at; i < scores.size() && scores[i] > kQuiet; ++i) out = std::max(out, scores[i]);
  return out >= detector.threshold.value_or(0) ? std::optional(out) : std::nullopt;
}

void read_shots(SourceVideo& video, const json& shots, const Detector& detector) {
  video.fps = number_at(shots, "fps").value_or(0);
  video.frames = count_at(shots, "frames");
  video.scores = numbers_at(shots, "scores");
  std::vector<int64_t> bounds{0};
  for (const double cut : numbers_at(shots, "cuts"))
    if (cut > static_cast<double>(bounds.back()) && cut < static_cast<double>(video.frames))
      bounds.push_back(static_cast<int64_t>(cut));
  if (video.frames <= 0) return;
  bounds.push_back(video.frames);
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    Shot shot{bounds[i], bounds[i + 1], std::nullopt, {}};
    if (i > 0) shot.score = score_of_cut(video.scores, shots, detector, bounds[i]);
    video.shots.push_back(shot);
  }
  const auto fades = shots.find("transitions");
  if (fades == shots.end() || !fades->is_array()) return;
  for (const json& fade : *fades)
    if (fade.is_array() && fade.size() == 2 && fade[0].is_number_integer() && fade[1].is_number_integer())
      video.fades.emplace_back(std::clamp<int64_t>(fade[0].get<int64_t>(), 0, video.frames),
                               std::clamp<int64_t>(fade[1].get<int64_t>(), 0, video.frames));
}

// The shot that shares the most frames with the clip.
Shot* shot_of(SourceVideo& video, const Item& clip) {
  Shot* best = nullptr;
  int64_t most = 0;
  for (auto& shot : video.shots) {
    const int64_t shared = std::min(shot.last, clip.last) - std::max(shot.first, clip.first);
    if (shared > most) {
      most = shared;
      best = &shot;
    }
  }
  return best;
}

// Clips of clips belong to the video at the end of the chain of parents.
SourceVideo& video_of(Curation& curation, const std::map<std::string, SourceVideo*>& videos,
                      const std::map<std::string, std::string>& parents, const Item& clip) {
  std::string key = clip.parent;
  for (int depth = 0; depth < 16; ++depth) {
    if (const auto video = videos.find(key); video != videos.end()) return *video->second;
    const auto up = parents.find(key);
    if (up == parents.end()) break;
    key = up->second;
  }
  for (auto& video : curation.videos)
    if (video.item.key == key && video.item.end.empty()) return video;
  SourceVideo& unknown = curation.videos.emplace_back();  // its line is missing
  unknown.item.key = key;
  return unknown;
}

// Returns the detector whose scores are kept: the one that decides alone, else the first of the stage.
std::string kept_detector(const json& options) {
  const auto found = options.is_object() ? options.find("detectors") : options.end();
  if (found == options.end() || !found->is_array()) return {};
  const std::string decides = text_at(options, "decide");
  std::string first;
  for (const auto& name : *found) {
    if (!name.is_string()) continue;
    if (name == decides) return decides;
    if (first.empty()) first = name.get<std::string>();
  }
  return first;
}

// The last stage that decides about shots; shots.merge has a threshold too, but joins shots by other values.
Detector detector_of(const JobRecord& job) {
  Detector out;
  for (const auto& [slot, id, version, options] : job.components) {
    if (id == "stage/shots" || id == "stage/video.clips") {
      const std::string name = kept_detector(options);
      out = {name, number_at(options, (name + "_threshold").c_str())};
    } else if (id.starts_with("stage/shots.") && id != "stage/shots.merge") {
      const auto decide = options.is_object() ? options.find("decide") : options.end();
      if (decide != options.end() && *decide == false) continue;  // its scores stand next to those kept
      out = {id.substr(id.find('.') + 1), number_at(options, "threshold")};
    }
  }
  return out;
}

// The edge_crop of the last stage that cuts clips out.
double edge_crop_of(const JobRecord& job) {
  double out = 0;
  for (const auto& [slot, id, version, options] : job.components)
    if (id == "stage/video.clips" || id == "stage/clip.transcode")
      out = number_at(options, "edge_crop").value_or(0);
  return out;
}

}  // namespace

std::vector<const JobRecord*> RunRecord::of_kind(std::string_view kind) const {
  std::vector<const JobRecord*> out;
  for (const auto& job : jobs)
    if (job.kind == kind) out.push_back(&job);
  return out;
}

void read_results(JobRecord& job) {
  if (const auto about = read_file(job.folder / "job.json"))
    job.scores = object_at(parse_facts(*about), "scores");
  const auto text = read_file(job.folder / "summary.json");
  if (!text) {
    job.missing = "it has not finished: its folder has no summary.json";
    return;
  }
  json summary = parse_facts(*text);
  if (summary.is_object()) {
    job.summary = std::move(summary);
  } else {
    job.missing = "its summary.json is incomplete; delete it and run again";
  }
}

std::optional<double> number_at(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

int64_t count_at(const json& object, const char* key) {
  const double value = number_at(object, key).value_or(0);
  return std::abs(value) < 9e15 ? static_cast<int64_t>(value) : 0;
}

std::string text_at(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const json& object_at(const json& object, const char* key) {
  static const json none = json::object();
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_object() ? *found : none;
}

std::vector<double> numbers_at(const json& object, const char* key) {
  std::vector<double> out;
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || !found->is_array()) return out;
  out.reserve(found->size());
  for (const auto& item : *found) out.push_back(item.is_number() ? item.get<double>() : 0.0);
  return out;
}

std::optional<std::string> read_file(const fs::path& file, uint64_t at_most) {
  auto text = read_regular_file(file, at_most);
  return text ? std::optional(*std::move(text)) : std::nullopt;
}

namespace {

// Calls f with each line that is a JSON object, and counts the others. Returns whether the file exists.
template <class F>
bool each_line(const fs::path& file, int64_t& broken, F&& f) {
  auto in = regular_stream(file);
  if (!in) return false;
  for (std::string line; std::getline(*in, line);) {
    if (line.empty()) continue;
    json object = parse_facts(line);
    if (object.is_object())
      f(std::move(object));
    else
      ++broken;
  }
  return true;
}

}  // namespace

Lines read_lines(const fs::path& file) {
  Lines out;
  out.found = each_line(file, out.broken, [&](json line) { out.objects.push_back(std::move(line)); });
  return out;
}

Metrics read_metrics(const JobRecord& job) {
  Metrics out;
  for (const auto& line : read_lines(job.folder / "metrics.jsonl").objects) {
    const auto step = number_at(line, "step");
    if (!step) continue;
    for (const auto& [name, value] : line.items())
      if (value.is_number() && std::isfinite(value.get<double>())) out[name][*step] = value.get<double>();
  }
  return out;
}

std::vector<fs::path> files_in(const fs::path& folder, std::string_view extension) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == extension && at->path().filename().string().front() != '.')
      out.push_back(at->path());
  std::sort(out.begin(), out.end());
  return out;
}

int64_t SourceVideo::clips_that(std::string_view end) const {
  return std::count_if(clips.begin(), clips.end(), [&](const Item& clip) { return clip.end == end; });
}

bool SourceVideo::is_fade(const Shot& shot) const {
  return std::ranges::any_of(
      fades, [&](const auto& fade) { return fade.first <= shot.first && shot.last <= fade.second; });
}

Curation read_curation(const JobRecord& job) {
  Curation out;
  out.detector = detector_of(job);
  out.edge_crop = edge_crop_of(job);
  std::map<std::string, SourceVideo*> videos;
  std::map<std::string, std::string> parents;
  std::deque<Item> clips;
  out.found = each_line(job.folder / "items.jsonl", out.broken, [&](const json& line) {
    Item item = read_item(line);
    add_scores(out.scores, line, item);
    if (!item.parent.empty()) {
      parents[item.key] = item.parent;
      clips.push_back(std::move(item));
      return;
    }
    SourceVideo& video = out.videos.emplace_back();
    read_shots(video, object_at(line, "shots"), out.detector);
    videos.emplace(item.key, &video);
    video.item = std::move(item);
  });
  for (Item& clip : clips) {
    SourceVideo& video = video_of(out, videos, parents, clip);
    video.clips.push_back(std::move(clip));
  }
  // Videos end in any order; the page sorts them.
  std::stable_sort(out.videos.begin(), out.videos.end(),
                   [](const SourceVideo& a, const SourceVideo& b) { return a.item.key < b.item.key; });
  for (auto& video : out.videos) {
    std::stable_sort(video.clips.begin(), video.clips.end(),
                     [](const Item& a, const Item& b) { return a.first < b.first; });
    for (const auto& clip : video.clips) {
      Shot* shot = shot_of(video, clip);
      (shot ? shot->clips : video.loose).push_back(&clip);
    }
  }
  return out;
}

}  // namespace kinora::core::report
