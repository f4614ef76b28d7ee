#include "plugins/jobs/curation/selections.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/status.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string kind_of(const fs::path& job) { return text_in(object_in_file(job / "job.json"), "kind"); }

Selection read_selection(const Decisions& decisions) {
  const fs::path folder = decisions.file.parent_path();
  Selection out{folder.filename().string(), "", {}, {}, drops_in(decisions.file), true};
  out.where = text_in(object_in(object_in_file(folder / "job.json"), "options"), "where");
  each_decision(decisions.file,
                [&](const json& line, const std::string&, const std::string& key, const std::string&) {
                  if (json added = added_facts(line); !added.empty()) out.added[key] = std::move(added);
                });
  for (const auto& [key, drop] : out.dropped)
    if (drop.is_final) out.left_out[key] = drop.rule;
  return out;
}

struct ReadSelection {
  Selection selection;
  size_t came_not_in = 0;  // clips that earlier jobs had left out
  size_t own() const { return selection.dropped.size() - std::min(came_not_in, selection.dropped.size()); }
};

// Whether `next` has read `first`, or a dedup job that has: what that one has left out, and the copies, are all that
// came not into the other.
bool continues(const ReadSelection& next, const ReadSelection& first) {
  const auto& dropped = first.selection.dropped;
  const auto copies = std::ranges::count_if(next.selection.dropped, [&](const auto& one) {
    return !one.second.is_final && !dropped.contains(one.first);
  });
  return first.own() > 0 && next.came_not_in == dropped.size() + static_cast<size_t>(copies) &&
         std::ranges::all_of(dropped, [&](const auto& one) {
           const auto at = next.selection.dropped.find(one.first);
           return at != next.selection.dropped.end() && at->second.rule == one.second.rule;
         });
}

std::vector<ReadSelection> read_selections(const fs::path& curated) {
  std::vector<ReadSelection> out;
  for (const auto& decisions : decisions_in(curated.parent_path())) {
    const fs::path folder = decisions.file.parent_path();
    std::error_code error;
    if (kind_of(folder) != "select" || !fs::equivalent(decisions.curated, curated, error)) continue;
    auto read = catching([&] { return read_selection(decisions); });
    const double before = number_in(object_in_file(folder / "summary.json"), "left_out_before");
    if (!read)
      log_info("{}: what it left out is not shown: {}", folder.filename().string(), read.failure().message);
    else
      out.push_back({std::move(*read), static_cast<size_t>(std::clamp(before, 0.0, 1e15))});
  }
  std::ranges::stable_sort(out, {}, &ReadSelection::came_not_in);
  return out;
}

void forget_outdated(Selection& selection, const EditHistory::Subject& clips) {
  std::map<std::string, Drop> own;
  for (const auto& [key, rule] : selection.left_out) own[key] = selection.dropped.at(key);
  take_outdated(own, clips);
  std::erase_if(selection.left_out, [&](const auto& one) { return !own.contains(one.first); });
}

}  // namespace

std::vector<Selection> selections_of(const fs::path& curated, const EditHistory::Subject& clips) {
  std::vector<ReadSelection> all = read_selections(curated);
  for (auto& next : all) next.selection.is_last = next.own() > 0;
  for (auto& next : all)
    for (auto& first : all) {
      if (&next == &first || !continues(next, first)) continue;
      std::erase_if(next.selection.left_out,
                    [&](const auto& one) { return first.selection.dropped.contains(one.first); });
      if (next.own() > 0) first.selection.is_last = false;
    }
  std::vector<Selection> out;
  for (auto& one : all) {
    forget_outdated(one.selection, clips);
    out.push_back(std::move(one.selection));
  }
  return out;
}

std::map<std::string, json> added_beside(const fs::path& curated) {
  std::vector<Selection> all;
  for (auto& one : read_selections(curated)) all.push_back(std::move(one.selection));
  return added_by(all);
}

std::map<std::string, json> added_by(const std::vector<Selection>& selections) {
  std::map<std::string, json> out;
  for (const auto& selection : selections)
    for (const auto& [key, added] : selection.added) out[key].merge_patch(added);
  return out;
}

fs::path folder_with_clips(const fs::path& dir) {
  const std::string kind = kind_of(dir);
  return kind == "select" || kind == "dedup" ? fs::weakly_canonical(dir).parent_path() : dir;
}

}  // namespace kinora::core
