#include "apps/studio/catalogue.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <tuple>

#include "core/jobs/clip_files.hpp"
#include "core/status.hpp"

namespace kinora::studio {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kColumns = 200;  // more names than this are no scores, but a mistake
constexpr int kDepth = 6;

std::string text_in(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

json json_in(const fs::path& path) {
  json value = json::parse(text_in(path), nullptr, false);
  return value.is_discarded() ? json() : value;
}

bool is_curate(const fs::path& folder) {
  const json job = json_in(folder / "job.json");
  if (job.is_object() && job.contains("kind")) return job["kind"] == "curate";
  return fs::exists(folder / "items.jsonl");
}

std::string text_of(const json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

End end_of(const std::string& name) {
  return name == "kept" ? End::kept : name == "filtered" ? End::filtered : End::failed;
}

// A key becomes a part of file names, in folders where it has slashes.
bool is_file_name(const std::string& key) {
  if (key.empty() || key.back() == '/' || key.find('\0') != key.npos) return false;
  for (size_t from = 0; from < key.size(); from = std::min(key.find('/', from), key.size() - 1) + 1)
    if (key[from] == '.' || key[from] == '/') return false;
  return true;
}

class Reader {
 public:
  explicit Reader(Catalogue& out) : out_(out) {}

  void lines(size_t job) {
    std::ifstream in(out_.jobs[job].path / "items.jsonl", std::ios::binary);
    std::string line;
    for (uint64_t at = 0; std::getline(in, line); at += line.size() + 1) {
      const json item = json::parse(
          line,
          [](int depth, json::parse_event_t event, const json& value) {
            return event != json::parse_event_t::key || depth != 1 ||
                   value != "shots";  // long, and not needed
          },
          false);
      add(item, job, at, line.size());
    }
  }

  // The marker of a stored clip is its field json.
  void stored(size_t job) {
    const auto clips = core::catching([&] { return core::clips_in(out_.jobs[job].path / "data"); });
    if (!clips) return;  // there is no such folder yet
    for (const auto& [key, fields] : *clips) {
      if (!fields.contains("json")) continue;
      const json facts = json_in(fields.at("json"));
      json item{{"key", key}, {"end", "kept"}, {"facts", facts}};
      if (facts.is_object()) item["parent"] = text_of(facts, "film");
      if (const auto caption = fields.find("txt"); caption != fields.end())
        item["caption"] = text_in(caption->second);
      add(item, job, 0, 0);
    }
  }

  void finish() {
    for (auto& [name, values] : out_.columns) values.resize(out_.clips.size(), std::nan(""));
  }

 private:
  void add(const json& item, size_t job, uint64_t at, uint64_t size) {
    if (!item.is_object() || !is_file_name(text_of(item, "key"))) {
      ++out_.unreadable;
      return;
    }
    Clip clip;
    clip.key = text_of(item, "key");
    clip.id = out_.jobs[job].name + "/" + clip.key;
    clip.film = text_of(item, "parent");
    clip.stage = text_of(item, "stage");
    clip.reason = text_of(item, "reason");
    clip.caption = text_of(item, "caption");
    clip.url = text_of(item, "url");
    clip.end = end_of(text_of(item, "end"));
    if (const auto consumed = item.find("consumed"); consumed != item.end())
      clip.consumed = *consumed == true;
    if (const auto score = item.find("score"); score != item.end() && score->is_number()) clip.score = *score;
    clip.job = job;
    clip.line_at = at;
    clip.line_size = size;
    const auto [known, is_new] = out_.by_id.emplace(clip.id, out_.clips.size());
    const size_t index = known->second;
    if (!is_new)
      for (auto& [name, values] : out_.columns)
        if (index < values.size()) values[index] = std::nan("");
    // A film that is shown as its clips is in no histogram.
    if (const auto facts = item.find("facts"); facts != item.end() && !clip.consumed)
      numbers(*facts, "", index, 0);
    if (clip.end == End::filtered && !std::isnan(clip.score) && !clip.reason.empty())
      set("scores." + clip.reason, index, clip.score);
    if (is_new) {
      out_.clips.push_back(std::move(clip));
    } else {
      out_.clips[index] = std::move(clip);
    }
  }

  void numbers(const json& value, const std::string& name, size_t index, int depth) {
    if (value.is_number()) set(name, index, value.get<double>());
    if (!value.is_object() || depth > kDepth) return;
    for (const auto& [key, member] : value.items())
      numbers(member, name.empty() ? key : name + "." + key, index, depth + 1);
  }

  void set(const std::string& name, size_t index, double value) {
    if (!std::isfinite(value)) return;
    auto at = out_.columns.find(name);
    if (at == out_.columns.end()) {
      if (out_.columns.size() == kColumns) return;
      at = out_.columns.emplace(name, std::vector<double>()).first;
    }
    if (at->second.size() <= index) at->second.resize(index + 1, std::nan(""));
    at->second[index] = value;
  }

  Catalogue& out_;
};

// In canonical order whatever the order in which clips were ready: films by name, then their clips.
void sort_by_key(Catalogue& c) {
  std::vector<size_t> order(c.clips.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(c.clips[a].job, c.clips[a].key) < std::tie(c.clips[b].job, c.clips[b].key);
  });
  std::vector<Clip> clips;
  clips.reserve(order.size());
  for (const size_t i : order) clips.push_back(std::move(c.clips[i]));
  c.clips = std::move(clips);
  for (auto& [name, values] : c.columns) {
    std::vector<double> sorted;
    sorted.reserve(order.size());
    for (const size_t i : order) sorted.push_back(values[i]);
    values = std::move(sorted);
  }
  for (size_t i = 0; i < c.clips.size(); ++i) c.by_id[c.clips[i].id] = i;
}

// The endings of what the user's browser may be given as a film; nothing else that a line names is read.
const char* film_type(const fs::path& path) {
  static constexpr std::array<std::pair<const char*, const char*>, 8> types{{{".mp4", "video/mp4"},
                                                                             {".m4v", "video/mp4"},
                                                                             {".mov", "video/mp4"},
                                                                             {".webm", "video/webm"},
                                                                             {".mkv", "video/x-matroska"},
                                                                             {".ogv", "video/ogg"},
                                                                             {".avi", "video/x-msvideo"},
                                                                             {".ts", "video/mp2t"}}};
  for (const auto& [ending, type] : types)
    if (path.extension() == ending) return type;
  return nullptr;
}

}  // namespace

std::vector<JobFolder> curate_jobs(const fs::path& dir) {
  std::error_code error;
  const fs::path folder = fs::canonical(dir, error);
  if (error || !fs::is_directory(folder))
    throw Error(KINORA_NOT_FOUND,
                dir.string() + ": there is no such folder; give that of a curate job or of a run");
  if (is_curate(folder)) return {{folder.filename().string(), folder}};
  std::vector<JobFolder> jobs;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory() && !entry.is_symlink() && entry.path().filename().string().front() != '.' &&
        is_curate(entry.path()))
      jobs.push_back({entry.path().filename().string(), entry.path()});
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  if (jobs.empty())
    throw Error(KINORA_NOT_FOUND,
                dir.string() +
                    ": no curate job is there; give the folder of one (it holds items.jsonl) or "
                    "of a run that has one");
  return jobs;
}

Catalogue read_catalogue(const std::vector<JobFolder>& jobs) {
  Catalogue out;
  out.jobs = jobs;
  Reader reader(out);
  for (size_t job = 0; job < jobs.size(); ++job) {
    if (fs::exists(jobs[job].path / "items.jsonl")) {
      reader.lines(job);
    } else {
      reader.stored(job);
    }
  }
  reader.finish();
  sort_by_key(out);
  return out;
}

std::string stamp_of(const std::vector<JobFolder>& jobs) {
  std::string out;
  for (const auto& job : jobs)
    for (const char* name : {"items.jsonl", "data"}) {
      std::error_code error;
      const auto time = fs::last_write_time(job.path / name, error);
      if (error) continue;
      out += name + std::to_string(time.time_since_epoch().count()) + ";";
      break;  // once items.jsonl is there, the folder does not count
    }
  return out;
}

const Clip* Catalogue::find(const std::string& id) const {
  const auto at = by_id.find(id);
  return at == by_id.end() ? nullptr : &clips[at->second];
}

double Catalogue::value(const std::string& column, size_t clip) const {
  const auto at = columns.find(column);
  return at == columns.end() ? std::nan("") : at->second[clip];
}

json item_of(const Catalogue& catalogue, const Clip& clip) {
  const fs::path folder = catalogue.jobs[clip.job].path;
  if (clip.line_size == 0)
    return {{"key", clip.key},
            {"end", "kept"},
            {"parent", clip.film},
            {"caption", clip.caption},
            {"facts", json_in(folder / "data" / (clip.key + ".json"))}};
  std::ifstream in(folder / "items.jsonl", std::ios::binary);
  std::string line(clip.line_size, '\0');
  in.seekg(static_cast<std::streamoff>(clip.line_at));
  in.read(line.data(), static_cast<std::streamsize>(line.size()));
  json item = json::parse(line, nullptr, false);
  if (!in || !item.is_object() || text_of(item, "key") != clip.key)
    throw Error(KINORA_IO, (folder / "items.jsonl").string() + ": it has changed; load the page again");
  return item;
}

fs::path stored_file(const Catalogue& catalogue, const Clip& clip, const std::string& field) {
  const fs::path data = catalogue.jobs[clip.job].path / "data", path = data / (clip.key + "." + field);
  std::error_code error;
  if (fs::symlink_status(path, error).type() != fs::file_type::regular) return {};
  const bool is_inside = fs::canonical(path, error) == fs::canonical(data, error) / (clip.key + "." + field);
  return is_inside && !error ? path : fs::path();
}

Media media_of(const Catalogue& catalogue, const Clip& clip) {
  if (auto own = stored_file(catalogue, clip, "mp4"); !own.empty())
    return {std::move(own), false, "video/mp4"};
  const Clip* film =
      clip.film.empty() ? &clip : catalogue.find(catalogue.jobs[clip.job].name + "/" + clip.film);
  if (!film || film->url.empty()) return {};
  std::string name = film->url;
  if (name.starts_with("file://")) name = name.substr(7);
  std::error_code error;
  const fs::path path = name;
  const char* type = film_type(path);
  if (!path.is_absolute() || !type || !fs::is_regular_file(path, error)) return {};
  return {path, true, type};
}

}  // namespace kinora::studio
