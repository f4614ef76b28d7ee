#include "apps/studio/rows.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/facts.hpp"
#include "plugins/jobs/curation/drops.hpp"
#include "plugins/jobs/curation/edits.hpp"
#include "plugins/jobs/curation/selections.hpp"
#include "plugins/jobs/curation/usage.hpp"

namespace kinora::studio {
namespace {

using core::object_in;
using core::text_in;
using nlohmann::json;

constexpr size_t kColumns = 200;   // more names than this are a mistake
constexpr size_t kOthers = 10000;  // names of facts that are not numbers
constexpr int kDepth = 6;

End end_of(const std::string& name) {
  return name == "kept" ? End::kept : name == "filtered" ? End::filtered : End::failed;
}

// A key becomes part of file names, with folders where it contains slashes.
bool is_file_name(const std::string& key) {
  if (key.empty() || key.back() == '/' || key.find('\0') != key.npos) return false;
  for (size_t from = 0; from < key.size(); from = std::min(key.find('/', from), key.size() - 1) + 1)
    if (key[from] == '.' || key[from] == '/') return false;
  return true;
}

// The number that the whole text is, as expressions read those of a CSV.
std::optional<double> number_of(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  if (first == text.npos) return std::nullopt;
  double out = 0;
  const char *begin = text.data() + first, *end = text.data() + last + 1;
  const auto [at, error] = std::from_chars(begin, end, out);
  return error == std::errc() && at == end ? std::optional(out) : std::nullopt;
}

bool is_exact(const json& number) {
  constexpr double kLargest = 9007199254740992;  // 2^53
  return number.is_number_float() || std::abs(number.get<double>()) <= kLargest;
}

// A video's and a picture's line has its path; the line of a clip does not.
Clip clip_of(const json& item, const JobFolder& job, const Rows::Line& line) {
  Clip clip;
  clip.key = text_in(item, "key");
  clip.id = job.name + "/" + clip.key;
  clip.video = text_in(item, "parent");
  clip.stage = text_in(item, "stage");
  clip.reason = text_in(item, "reason");
  clip.caption = text_in(item, "caption");
  clip.url = text_in(item, "url");
  clip.tags = core::tags_in(object_in(item, "facts"));
  if (const json footage = core::subject_of(object_in(item, "facts")); !footage.empty())
    clip.footage = footage.dump(-1, ' ', false, json::error_handler_t::replace);
  clip.is_picture = core::object_in(item, "facts").contains("picture");
  clip.is_video = item.contains("url") && !clip.is_picture;
  clip.end = end_of(text_in(item, "end"));
  clip.consumed = core::flag_in(item, "consumed");
  if (const auto score = item.find("score"); score != item.end() && score->is_number()) clip.score = *score;
  const json& bounds = object_in(object_in(object_in(item, "facts"), "bounds"), clip.reason.c_str());
  clip.is_most = bounds.contains("at_most");
  if (!bounds.empty()) clip.bound = core::number_in(bounds, clip.is_most ? "at_most" : "at_least");
  clip.copy_of = text_in(item, "of");
  if (clip.copy_of.empty()) clip.copy_of = text_in(object_in(object_in(item, "facts"), "duplicate"), "of");
  clip.job = line.job;
  clip.line_at = line.at;
  clip.line_size = line.size;
  clip.in_record = line.in_record;
  return clip;
}

}  // namespace

json Rows::parse(std::string_view line, int depth) {
  return json::parse(
      line,
      [depth](int at, json::parse_event_t event, const json& value) {
        return event != json::parse_event_t::key || at != depth || value != "shots";
      },
      false);
}

void Rows::add(const json& item, const Line& line) {
  if (!item.is_object() || !is_file_name(text_in(item, "key"))) {
    ++out_.unreadable;
    return;
  }
  Clip clip = clip_of(item, out_.jobs[line.job], line);
  const auto [known, is_new] = out_.by_id.emplace(clip.id, out_.clips.size());
  const size_t row = known->second;
  // A second sample with the same key has failed; the first is the stored one.
  if (!is_new && !line.in_record && clip.end == End::failed && out_.clips[row].end == End::kept) return;
  if (!is_new) {
    for (auto& [name, values] : out_.columns)
      if (row < values.size()) values[row] = std::nan("");
    for (auto& [name, facet] : out_.facets)
      if (row < facet.of.size()) facet.of[row] = 0;
  }
  usage_.erase(row);
  const json& facts = object_in(item, "facts");
  if (const json& used = object_in(facts, "usage"); !used.empty()) usage_[row] = used;
  if (!clip.consumed)
    numbers(facts, "", row, 0);  // an input video shown as its clips does not count in histograms
  if (clip.end == End::filtered && !std::isnan(clip.score) && !clip.reason.empty())
    set("scores." + clip.reason, row, clip.score);
  if (is_new) {
    out_.clips.push_back(std::move(clip));
  } else {
    out_.clips[row] = std::move(clip);
  }
}

void Rows::numbers(const json& value, const std::string& name, size_t row, int depth) {
  if (value.is_number()) set(name, row, value.get<double>());
  if (!value.is_number() || !is_exact(value)) note_other(value, name, row);
  if (!value.is_object() || depth > kDepth) return;
  for (const auto& [key, member] : value.items())
    if (depth > 0 || key != "bounds")  // options, which do not measure the clip
      numbers(member, name.empty() ? key : name + "." + key, row, depth + 1);
}

void Rows::note_other(const json& value, const std::string& name, size_t row) {
  if (name == "tags" && !value.empty() && value == json(core::tags_in({{"tags", value}})))
    return;  // Clip::tags
  if (out_.others.size() < kOthers) out_.others.insert(name);
  if (!value.is_string()) {
    if (not_texts_.size() < kOthers) not_texts_.insert(name);
    return;
  }
  if (out_.texts.size() < kColumns) out_.texts.insert(name);
  note_text(value.get_ref<const std::string&>(), name, row);
  if (!name.starts_with(kOfUser)) return;
  if (const auto number = number_of(value.get_ref<const std::string&>())) set(name, row, *number);
}

void Rows::note_text(const std::string& text, const std::string& name, size_t row) {
  auto at = out_.facets.find(name);
  if (at == out_.facets.end()) {
    if (out_.facets.size() == kColumns) return;
    at = out_.facets.emplace(name, Facet()).first;
  }
  Facet& facet = at->second;
  if (facet.is_of_many) return;
  auto value = std::ranges::find(facet.values, text);
  const bool is_new = value == facet.values.end();
  if (is_new && (facet.values.size() == Facet::kMost || text.size() > Facet::kLongest)) {
    facet = {{}, {}, true};
    return;
  }
  if (is_new) value = facet.values.insert(value, text);
  if (facet.of.size() <= row) facet.of.resize(row + 1, 0);
  facet.of[row] = static_cast<uint8_t>(value - facet.values.begin() + 1);
}

void Rows::set(const std::string& name, size_t row, double value) {
  if (!std::isfinite(value)) return;
  auto at = out_.columns.find(name);
  if (at == out_.columns.end()) {
    if (out_.columns.size() == kColumns) return;
    at = out_.columns.emplace(name, std::vector<double>()).first;
  }
  if (at->second.size() <= row) at->second.resize(row + 1, std::nan(""));
  at->second[row] = value;
}

void Rows::add_selections() {
  for (size_t job = 0; job < out_.jobs.size(); ++job)
    if (source_of(out_.jobs[job]) == Source::items) add_selections_of(job);
}

void Rows::add_selections_of(size_t job) {
  const auto selections = core::selections_of(out_.jobs[job].path, kept_in(out_, job).of_key);
  const auto row_of = [&](const std::string& key) {
    const auto at = out_.by_id.find(out_.jobs[job].name + "/" + key);
    return at == out_.by_id.end() || out_.clips[at->second].end != End::kept ? nullptr : &*at;
  };
  for (const auto& selection : selections) {
    for (const auto& [key, rule] : selection.left_out)
      if (const auto* row = row_of(key))
        out_.clips[row->second].left_out.push_back({out_.choosers.size(), rule});
    out_.choosers.push_back({job, selection.job, selection.where});
  }
  for (auto& [key, added] : core::added_by(selections)) {
    const auto* row = row_of(key);
    if (!row) continue;
    numbers(added, "", row->second, 0);
    out_.added[row->first] = std::move(added);
  }
  for (Clip& clip : out_.clips)
    if (clip.job == job && !clip.left_out.empty())
      clip.is_chosen = std::ranges::none_of(selections, &core::Selection::is_last) ||
                       std::ranges::any_of(selections, [&](const auto& one) {
                         return one.is_last && !one.dropped.contains(clip.key);
                       });
}

// Includes input videos, as summary.json will.
void Rows::sum_usage() {
  std::vector<core::Usage> sums(out_.jobs.size());
  for (const auto& [row, stages] : usage_) sums[out_.clips[row].job].add({{"usage", stages}});
  for (const auto& sum : sums) out_.usage.push_back(sum.sums());
}

// Sorts independently of the order in which clips were ready: videos by name, each followed by its clips.
void Rows::finish() {
  auto& clips = out_.clips;
  sum_usage();
  std::vector<size_t> order(clips.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(clips[a].job, clips[a].key) < std::tie(clips[b].job, clips[b].key);
  });
  const auto sort = [&]<class T>(std::vector<T>& values, T none) {
    values.resize(clips.size(), none);
    std::vector<T> sorted;
    sorted.reserve(order.size());
    for (const size_t row : order) sorted.push_back(values[row]);
    values = std::move(sorted);
  };
  for (auto& [name, values] : out_.columns) sort(values, std::nan(""));
  const bool has_all = out_.columns.size() < kColumns && out_.others.size() < kOthers;
  for (auto& [name, facet] : out_.facets) {
    if (facet.is_of_many) continue;
    sort(facet.of, uint8_t{0});
    facet.is_whole = has_all && !out_.columns.contains(name) && !not_texts_.contains(name);
  }
  std::vector<Clip> sorted;
  sorted.reserve(order.size());
  for (const size_t row : order) sorted.push_back(std::move(clips[row]));
  clips = std::move(sorted);
  out_.by_id.clear();
  for (size_t row = 0; row < clips.size(); ++row) out_.by_id[clips[row].id] = row;
}

namespace {

namespace fs = std::filesystem;

// Decisions of the finished dedup jobs in all runs that the jobs belong to.
std::vector<core::Decisions> decisions_beside(const std::vector<JobFolder>& jobs) {
  std::set<fs::path> runs;
  for (const auto& job : jobs) runs.insert(job.path.parent_path());
  std::vector<core::Decisions> out;
  for (const auto& run : runs)
    for (auto& decisions : core::decisions_in(run)) out.push_back(std::move(decisions));
  return out;
}

// The finished job whose clips were compared; null: the studio does not show it.
const JobFolder* job_of(const Catalogue& catalogue, const fs::path& curated) {
  const auto at = std::find_if(catalogue.jobs.begin(), catalogue.jobs.end(), [&](const JobFolder& job) {
    std::error_code error;
    return fs::equivalent(job.path, curated, error) && source_of(job) == Source::items;
  });
  return at == catalogue.jobs.end() ? nullptr : &*at;
}

}  // namespace

void mark_copies(Catalogue& catalogue) {
  for (const auto& decisions : decisions_beside(catalogue.jobs)) {
    const JobFolder* job = job_of(catalogue, decisions.curated);
    if (!job) continue;
    for (const auto& [key, drop] : core::copies_by(decisions)) {
      const auto at = catalogue.by_id.find(job->name + "/" + key);
      if (at == catalogue.by_id.end() || catalogue.clips[at->second].end != End::kept) continue;
      Clip& clip = catalogue.clips[at->second];
      clip.copy_of = drop.of;
      clip.copy_rule = drop.rule;
      clip.copy_score = drop.score;
      clip.copy_why = drop.reason;
    }
  }
}

std::string copies_stamp(const std::vector<JobFolder>& jobs) {
  std::string out;
  for (const auto& decisions : decisions_beside(jobs)) {
    std::error_code error;
    out += decisions.file.string() +
           std::to_string(fs::last_write_time(decisions.file, error).time_since_epoch().count()) + ";";
  }
  return out;
}

namespace {

using Videos = std::vector<const Clip*>;

// The last `parts` components of an address; all of it if it has fewer.
std::string_view tail(std::string_view url, size_t parts) {
  size_t at = url.size();
  while (parts-- > 0 && at != url.npos) at = at == 0 ? url.npos : url.rfind('/', at - 1);
  return at == url.npos ? url : url.substr(at + 1);
}

std::string_view stem(std::string_view url) {
  const auto name = tail(url, 1);
  return name.substr(0, name.rfind('.'));
}

void tell_apart(const Videos& videos, std::unordered_map<std::string, std::string>& out) {
  size_t longest = 2;
  for (const Clip* video : videos)
    longest = std::max<size_t>(longest, static_cast<size_t>(std::ranges::count(video->url, '/')) + 1);
  size_t parts = 2;
  const auto differ = [&] {
    std::set<std::string_view> tails;
    return std::ranges::all_of(
        videos, [&](const Clip* video) { return tails.insert(tail(video->url, parts)).second; });
  };
  while (parts < longest && !differ()) ++parts;
  for (const Clip* video : videos) out[video->id] = tail(video->url, parts);
}

}  // namespace

std::unordered_map<std::string, std::string> video_places(const Catalogue& catalogue) {
  std::map<std::pair<size_t, std::string_view>, Videos> by_name;
  for (const Clip& clip : catalogue.clips)
    if (clip.is_video && !clip.url.empty()) by_name[{clip.job, stem(clip.url)}].push_back(&clip);
  std::unordered_map<std::string, std::string> out;
  for (const auto& [name, videos] : by_name)
    if (videos.size() > 1) tell_apart(videos, out);
  return out;
}

}  // namespace kinora::studio
