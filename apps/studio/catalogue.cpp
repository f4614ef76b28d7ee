#include "apps/studio/catalogue.hpp"

#include <algorithm>
#include <chrono>

#include "apps/studio/rows.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/regular_stream.hpp"
#include "core/base/status.hpp"
#include "core/run/job_folder.hpp"
#include "plugins/jobs/curation/clip_files.hpp"
#include "plugins/jobs/curation/inputs.hpp"
#include "plugins/jobs/curation/record.hpp"

namespace kinora::studio {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string text_of(const fs::path& path) {
  auto text = core::read_regular_file(path);
  return text ? *std::move(text) : "";
}

json json_in(const fs::path& path) {
  const auto text = core::read_regular_file(path);
  json value = text ? core::parse_facts(*text) : json();
  return value.is_discarded() ? json() : value;
}

bool is_curate(const fs::path& folder) {
  const json job = json_in(folder / "job.json");
  if (job.is_object() && job.contains("kind")) return job["kind"] == "curate";
  return fs::exists(folder / "items.jsonl");
}

void read_items(const JobFolder& folder, size_t job, Rows& rows) {
  auto in = core::regular_stream(folder.path / "items.jsonl");
  std::string line;
  for (uint64_t at = 0; in && std::getline(*in, line); at += line.size() + 1)
    rows.add(Rows::parse(line, 1), {job, at, line.size(), false});
}

void read_running(const JobFolder& folder, size_t job, Rows& rows) {
  const auto read = core::catching([&] {
    core::read_record(folder.path, [&](int64_t id, const std::string& line) {
      rows.add(Rows::parse(line, 1), {job, static_cast<uint64_t>(id), line.size(), true});
    });
  });
  if (!read) core::log_warn("studio: {}", read.failure().message);
}

// Rows of the clips in the job's folder data. A stored clip is complete once its field json exists.
void read_stored(const JobFolder& folder, size_t job, Rows& rows) {
  const auto clips = core::catching([&] { return core::clips_in(folder.path / "data"); });
  if (!clips) return;  // the folder does not exist yet
  for (const auto& [key, fields] : *clips) {
    if (!fields.contains("json")) continue;
    const json facts = json_in(fields.at("json"));
    json item{{"key", key}, {"end", "kept"}, {"facts", facts}, {"parent", core::text_in(facts, "film")}};
    if (item["parent"] == "") item["url"] = "";  // an input video
    if (const auto caption = fields.find("txt"); caption != fields.end())
      item["caption"] = text_of(caption->second);
    rows.add(item, {job, 0, 0, false});
  }
}

struct VideoType {
  const char *ending, *type;
};
// File name endings of videos and pictures. The user's browser may receive such files, whether it can play
// them or not; no other file that an item names is read.
constexpr VideoType kVideoTypes[] = {
    {".mp4", "video/mp4"},       {".m4v", "video/mp4"},        {".mov", "video/mp4"},
    {".webm", "video/webm"},     {".mkv", "video/x-matroska"}, {".ogv", "video/ogg"},
    {".avi", "video/x-msvideo"}, {".ts", "video/mp2t"},        {".mts", "video/mp2t"},
    {".m2ts", "video/mp2t"},     {".mpg", "video/mpeg"},       {".mpeg", "video/mpeg"},
    {".m2v", "video/mpeg"},      {".vob", "video/mpeg"},       {".flv", "video/x-flv"},
    {".f4v", "video/x-f4v"},     {".wmv", "video/x-ms-wmv"},   {".asf", "video/x-ms-asf"},
    {".3gp", "video/3gpp"},      {".3g2", "video/3gpp2"},      {".mxf", "application/mxf"},
    {".ogm", "video/ogg"},       {".divx", "video/x-msvideo"}, {".jpg", "image/jpeg"},
    {".jpeg", "image/jpeg"},     {".png", "image/png"},        {".webp", "image/webp"}};

// The Content-Type of an ending in lower case; "": not one of these endings.
const char* video_type(const std::string& ending) {
  const auto at = std::ranges::find(kVideoTypes, ending, &VideoType::ending);
  return at == std::end(kVideoTypes) ? "" : at->type;
}

}  // namespace

std::vector<JobFolder> curate_jobs(const fs::path& dir) {
  std::error_code error;
  const fs::path folder = fs::canonical(dir, error);
  if (error || !fs::is_directory(folder))
    throw Error(KINORA_ERROR_INVALID,
                dir.string() + ": no such folder; give the folder of a curate job or of a run");
  if (is_curate(folder)) return {{folder.filename().string(), folder}};
  std::vector<JobFolder> jobs;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory() && !entry.is_symlink() && entry.path().filename().string().front() != '.' &&
        is_curate(entry.path()))
      jobs.push_back({entry.path().filename().string(), entry.path()});
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  if (jobs.empty())
    throw Error(KINORA_ERROR_INVALID,
                dir.string() +
                    ": contains no curate job; give the folder of a curate job (it contains items.jsonl) or "
                    "of a run that has one");
  return jobs;
}

namespace {

void add_scores(const JobFolder& job, json& to) {
  const json about = json_in(job.path / "job.json");
  for (const auto& [name, stated] : core::object_in(about, "scores").items())
    to[name] = {{"title", core::text_in(stated, "title")}, {"unit", core::text_in(stated, "unit")}};
}

}  // namespace

Catalogue read_catalogue(const std::vector<JobFolder>& jobs) {
  Catalogue out;
  out.jobs = jobs;
  for (const auto& job : jobs) add_scores(job, out.scores);
  Rows rows(out);
  for (size_t job = 0; job < jobs.size(); ++job) {
    const Source source = source_of(jobs[job]);
    (source == Source::items    ? read_items
     : source == Source::record ? read_running
                                : read_stored)(jobs[job], job, rows);
  }
  rows.add_selections();
  rows.finish();
  mark_copies(out);
  for (const Clip& clip : out.clips)
    if (const auto first = out.by_id.find(jobs[clip.job].name + "/" + clip.copy_of);
        !clip.copy_rule.empty() && first != out.by_id.end())
      out.clips[first->second].copies.push_back(clip.id);
  out.places = video_places(out);
  return out;
}

Source source_of(const JobFolder& job) {
  const auto has = [&](const char* name) {
    std::error_code error;
    return fs::exists(job.path / name, error);
  };
  if (!has("summary.json") && has(core::kRecordFile)) return Source::record;
  return has("items.jsonl") ? Source::items : Source::stored;
}

namespace {

bool has_results_aside(const JobFolder& job) {
  return std::ranges::any_of(core::lying_aside(job.path), [](const fs::path& aside) {
    std::error_code error;
    return fs::exists(aside, error);
  });
}

}  // namespace

bool begins_anew(const JobFolder& job) { return source_of(job) != Source::items && has_results_aside(job); }

void require_folder(const JobFolder& job) {
  std::error_code error;
  if (!fs::exists(job.path, error) && !has_results_aside(job))
    throw Error(
        KINORA_ERROR_NOT_FOUND,
        job.path.string() + ": the folder is gone; put it back, or open the studio on the run's new place");
}

std::string stamp_of(const std::vector<JobFolder>& jobs) {
  std::string out;
  for (const auto& job : jobs) {
    const Source source = source_of(job);
    std::vector<std::string> names{source == Source::items ? "items.jsonl" : "data"};
    if (source == Source::record) names = {core::kRecordFile, std::string(core::kRecordFile) + "-wal"};
    for (const auto& name : names) {
      std::error_code error;
      const auto time = fs::last_write_time(job.path / name, error);
      if (!error) out += name + std::to_string(time.time_since_epoch().count()) + ";";
    }
  }
  return out + copies_stamp(jobs);
}

const Clip* Catalogue::find(const std::string& id) const {
  const auto at = by_id.find(id);
  return at == by_id.end() ? nullptr : &clips[at->second];
}

double Catalogue::value(const std::string& column, size_t clip) const {
  const auto at = columns.find(column);
  return at == columns.end() ? std::nan("") : at->second[clip];
}

std::string Catalogue::video_of(const Clip& clip) const {
  return clip.video.empty() ? clip.id : jobs[clip.job].name + "/" + clip.video;
}

std::string Catalogue::place_of(const Clip& clip) const {
  const auto at = places.find(video_of(clip));
  return at == places.end() ? "" : at->second;
}

json footage_of(const Clip& clip) {
  return clip.footage.empty() ? json::object() : json::parse(clip.footage);
}

core::Footage kept_in(const Catalogue& catalogue, size_t job) {
  const auto of_key = [&catalogue, job](const std::string& key) {
    const Clip* clip = catalogue.find(catalogue.jobs[job].name + "/" + key);
    return clip && clip->end == End::kept ? footage_of(*clip) : json();
  };
  const auto keys = [&catalogue, job] {
    std::map<std::string, std::string> out;
    for (const Clip& clip : catalogue.clips) {
      if (clip.job != job || clip.end != End::kept || clip.consumed) continue;
      const std::string footage = core::text_of_subject(footage_of(clip));
      if (!footage.empty() && !out.try_emplace(footage, clip.key).second) out[footage].clear();
    }
    return out;
  };
  return {of_key, keys};
}

namespace {

json stored_item(const Catalogue& catalogue, const Clip& clip) {
  const fs::path folder = catalogue.jobs[clip.job].path;
  if (clip.line_size == 0)
    return {{"key", clip.key},
            {"end", "kept"},
            {"parent", clip.video},
            {"caption", clip.caption},
            {"facts", json_in(folder / "data" / (clip.key + ".json"))}};
  std::string line(clip.line_size, '\0');
  if (clip.in_record) {
    line = core::record_line(folder, static_cast<int64_t>(clip.line_at));
  } else {
    auto in = core::regular_stream(folder / "items.jsonl");
    if (in) in->seekg(static_cast<std::streamoff>(clip.line_at));
    if (!in || !in->read(line.data(), static_cast<std::streamsize>(line.size()))) line.clear();
  }
  json item = core::parse_facts(line);
  if (!item.is_object() || core::text_in(item, "key") != clip.key)
    throw Error(KINORA_ERROR_IO, (folder / (clip.in_record ? core::kRecordFile : "items.jsonl")).string() +
                                     ": the file has changed; reload the page");
  return item;
}

}  // namespace

json item_of(const Catalogue& catalogue, const Clip& clip) {
  json item = stored_item(catalogue, clip);
  if (const auto added = catalogue.added.find(clip.id); added != catalogue.added.end())
    item["facts"].merge_patch(added->second);
  return item;
}

fs::path stored_file(const Catalogue& catalogue, const Clip& clip, const std::string& field) {
  const fs::path data = catalogue.jobs[clip.job].path / "data", path = data / (clip.key + "." + field);
  std::error_code error;
  if (fs::symlink_status(path, error).type() != fs::file_type::regular) return {};
  const bool is_inside = fs::canonical(path, error) == fs::canonical(data, error) / (clip.key + "." + field);
  return is_inside && !error ? path : fs::path();
}

Media stored_media(const Catalogue& catalogue, const Clip& clip) {
  static const std::vector<std::string> kVideo{"mp4"}, kPicture{"jpg", "png", "webp"};
  for (const auto& field : clip.is_picture ? kPicture : kVideo)
    if (auto own = stored_file(catalogue, clip, field); !own.empty())
      return {std::move(own), false, video_type("." + field), {}};
  return {};
}

Media media_of(const Catalogue& catalogue, const Clip& clip) {
  if (Media own = stored_media(catalogue, clip); !own.path.empty()) return own;
  const Clip* video = catalogue.find(catalogue.video_of(clip));
  if (!video || video->url.empty()) return {};
  std::string name = video->url;
  if (name.starts_with("file://")) name = name.substr(7);
  std::error_code error;
  const fs::path path = name;
  if (!path.is_absolute() || !fs::is_regular_file(path, error)) return {};
  std::string ending = core::ending_of(name);
  const char* type = video_type(ending);
  return {*type ? path : fs::path(), true, type, std::move(ending)};
}

namespace {

constexpr uint64_t kLargest = 4 << 20;  // bytes of a file of live progress

json object_in(const fs::path& path) {
  const auto text = core::read_regular_file(path, kLargest);
  if (!text) return {};
  json value = core::parse_facts(*text);
  return value.is_object() ? std::move(value) : json();
}

}  // namespace

json live_of(const JobFolder& job, const json& usage) {
  json figures = object_in(job.path / "live.json"), summary = object_in(job.path / "summary.json");
  if (figures.is_null() && summary.is_null()) return {};
  std::error_code error;
  const auto written = fs::last_write_time(job.path / "live.json", error);
  const auto age = std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
  return {
      {"job", job.name},
      {"done", !summary.is_null() && core::text_in(summary, "status") != "failed"},
      {"age_s", error ? json() : json(age)},
      {"failure", core::text_in(object_in(job.path.parent_path() / ("." + job.name + ".failed")), "message")},
      {"usage", summary.is_null() ? usage : core::object_in(summary, "usage")},
      {"figures", std::move(figures)},
      {"summary", std::move(summary)}};
}

}  // namespace kinora::studio
