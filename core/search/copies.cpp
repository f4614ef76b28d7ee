#include "core/search/copies.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/curate/drops.hpp"
#include "core/jobs/clip_files.hpp"
#include "core/log.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using Drops = std::map<std::string, Drop>;

// The data folders of the run that have all clips that are dropped and those that they are copies of.
std::vector<fs::path> possible(const fs::path& run, const Drops& drops) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& job : fs::directory_iterator(run, error)) {
    const fs::path data = job.path() / "data";
    if (!fs::is_directory(data, error)) continue;
    const auto has = [&](const std::string& key) {
      return fs::exists(data / (key + ".json"), error) || fs::exists(data / (key + ".mp4"), error);
    };
    if (std::all_of(drops.begin(), drops.end(),
                    [&](const auto& drop) { return has(drop.first) && (drop.second.of.empty() || has(drop.second.of)); }))
      out.push_back(data);
  }
  std::sort(out.begin(), out.end());
  return out;
}

size_t lines_in(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
}

bool are_about(const fs::path& data, const fs::path& decisions, const Drops& drops) {
  const auto found = possible(data.parent_path().parent_path(), drops);
  const auto same = [&](const fs::path& at) { return fs::equivalent(at, data); };
  if (found.size() < 2) return !found.empty() && same(found.front());
  const size_t decided = lines_in(decisions);
  const auto exact = std::find_if(found.begin(), found.end(), [&](const auto& at) { return clips_in(at).size() == decided; });
  return same(exact == found.end() ? found.front() : *exact);
}

}  // namespace

std::vector<fs::path> decisions_in(const fs::path& run) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run, error))
    if (entry.path().filename().string().front() != '.' && fs::exists(entry.path() / "summary.json", error) &&
        fs::is_regular_file(entry.path() / "decisions.jsonl", error))
      out.push_back(entry.path() / "decisions.jsonl");
  std::sort(out.begin(), out.end());
  return out;
}

std::set<std::string> copies_in(const fs::path& data) {
  std::set<std::string> out;
  const fs::path at = fs::weakly_canonical(data), job = at.parent_path();
  for (const auto& file : decisions_in(job.parent_path())) {
    const auto drops = catching([&] { return drops_in(file); });
    if (!drops) log_info("copies are not left out: {}", drops.failure().message);
    if (!drops || !are_about(at, file, *drops)) continue;
    for (const auto& [key, drop] : *drops)
      if (!drop.of.empty()) out.insert(key);
  }
  if (out.empty()) return out;
  const EditHistory edits = read_edits(job / kEditsFile, kept_in(job));
  std::erase_if(out, [&](const std::string& key) { return edits.now(key).keep == true; });
  return out;
}

Embedded without_copies(Embedded all) {
  Embedded out;
  out.size = all.size;
  out.encoder = std::move(all.encoder);
  std::map<fs::path, std::set<std::string>> copies;
  for (size_t i = 0; i < all.clips.size(); ++i) {
    auto known = copies.find(all.clips[i].folder);
    if (known == copies.end()) known = copies.emplace(all.clips[i].folder, copies_in(all.clips[i].folder)).first;
    if (known->second.contains(all.clips[i].key)) continue;
    const auto row = all.row(i);
    out.vectors.insert(out.vectors.end(), row.begin(), row.end());
    out.clips.push_back(std::move(all.clips[i]));
  }
  return out;
}

}  // namespace kinora::core
