// The changes by the page: edits of clips as steps of undo, and saved views.
#include <algorithm>
#include <cstdint>
#include <ranges>
#include <set>

#include "apps/studio/clip_json.hpp"
#include "apps/studio/studio.hpp"
#include "core/base/facts.hpp"
#include "core/base/status.hpp"
#include "plugins/jobs/curation/edits.hpp"

namespace kinora::studio {
namespace {

using nlohmann::json;

constexpr size_t kNamed = 5;  // clips that an answer names

// How many decisions of before are the opposite now.
json overruled(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  json out{{"accepted", 0}, {"rejected", 0}};
  for (size_t i = 0; i < before.size(); ++i)
    if (!before[i].empty() && !now[i].empty() && before[i] != now[i])
      out[before[i]] = out[before[i]].get<int64_t>() + 1;
  return out;
}

// Throws Error KINORA_ERROR_INVALID if the clip's stored video has not these frames.
void require_frames(const Catalogue& catalogue, const Clip& clip, const core::Trim& trim) {
  const double frames = catalogue.value("frames", static_cast<size_t>(&clip - catalogue.clips.data()));
  if (!stored_file(catalogue, clip, "mp4").empty() && static_cast<double>(trim.end) <= frames) return;
  throw Error(KINORA_ERROR_INVALID, clip.key + " cannot be trimmed: it is not a stored video of " +
                                        std::to_string(trim.end) + " frames or more");
}

}  // namespace

std::vector<const Clip*> Studio::targets(const json& request, bool with_copies, size_t& gone) const {
  const bool is_one = request.is_object() && request.contains("id") && request["id"].is_string();
  const json ids = is_one                ? json::array({request["id"]})
                   : request.is_object() ? request.value("ids", json())
                                         : json();
  if (!ids.is_array() || !std::ranges::all_of(ids, [](const json& id) { return id.is_string(); }))
    throw Error(KINORA_ERROR_INVALID, R"(expected {"id": ID} or {"ids": [ID, ...]}, and what to set)");
  std::vector<const Clip*> out;
  std::set<const Clip*> known;
  const auto add = [&](const Clip& clip) {
    if (known.insert(&clip).second) out.push_back(&clip);
  };
  for (const json& id : ids) {
    const auto& text = id.get_ref<const std::string&>();
    const Clip* clip = is_one ? &data_.need(text) : data_.catalogue().find(text);
    gone += clip == nullptr;
    if (clip) add(*clip);
    if (clip && with_copies)
      for (const auto& copy : data_.copies_left(*clip)) add(data_.need(copy));
  }
  return out;
}

json Studio::edit(const json& request) {
  const Lock lock(mutex_);
  data_.refresh(true);
  size_t gone = 0, unstorable = 0;
  auto clips = targets(request, core::flag_in(request, "copies"), gone);
  const auto tags = [&](const char* name) {
    return request.contains(name) ? core::tags_of(request[name], name) : core::Tags();
  };
  EditRequest wanted{core::change_of(request.value("set", json::object())), tags("tag"), tags("untag")};
  if (wanted.set.caption) wanted.set.caption = core::trimmed(*wanted.set.caption);
  if (wanted.set.reason) wanted.set.reason = core::trimmed(*wanted.set.reason);
  for (const Clip* clip : clips)
    if (wanted.set.trim) require_frames(data_.catalogue(), *clip, *wanted.set.trim);
  if (request.contains("caption_seen"))
    wanted.caption_seen = core::trimmed(core::text_in(request, "caption_seen"));
  if (wanted.set.keep == true && clips.size() > 1)
    unstorable = std::erase_if(clips, [&](const Clip* clip) { return !data_.can_be_accepted(*clip); });
  for (const auto& tag : tags("toggle")) {
    const bool all_have = std::ranges::all_of(clips, [&](const Clip* clip) {
      return std::ranges::count(*values_now(*clip, data_.edits_of(*clip)).tags, tag) > 0;
    });
    (all_have ? wanted.untag : wanted.tag).push_back(tag);
  }
  const core::Tags untagged = wanted.untag;
  const auto decisions = [&] {
    std::vector<std::string> out;
    for (const Clip* clip : clips) out.push_back(decision_of(data_.edits_of(*clip)));
    return out;
  };
  const auto before = decisions();
  const Saved all = change(clips, std::move(wanted), request.value("seen", json()));
  if (!all.keys.empty()) data_.change_version();
  const bool is_one = request.contains("id") || request["ids"].size() == 1;
  json out = saved(all, is_one && !clips.empty() ? clips.front() : nullptr);
  out["gone"] = gone;
  out["overruled"] = overruled(before, decisions());
  out["untagged"] = untagged;
  out["unstorable"] = unstorable;
  return out;
}

Saved Studio::change(const std::vector<const Clip*>& clips, EditRequest wanted, const json& seen) {
  std::vector<std::vector<Target>> by_job(data_.jobs().size());
  for (const Clip* clip : clips)
    by_job[clip->job].push_back({clip->key, own_values(*clip), footage_of(*clip)});
  wanted.time = time_now();  // of all jobs, so that they are undone together
  Saved out;
  for (size_t job = 0; job < by_job.size(); ++job) {
    const bool is_known = seen.is_array() && job < seen.size() && seen[job].is_number_unsigned();
    wanted.seen = is_known ? seen[job].get<size_t>() : SIZE_MAX;
    if (by_job[job].empty()) continue;
    Saved of_job = core::or_throw(data_.journals()[job].change(by_job[job], wanted));
    std::ranges::move(of_job.keys, std::back_inserter(out.keys));
    std::ranges::move(of_job.conflicts, std::back_inserter(out.conflicts));
  }
  return out;
}

// clip: the only one that the step is for.
json Studio::saved(const Saved& all, const Clip* clip) const {
  json conflicts = json::array();
  for (const Edit& edit : all.conflicts)
    conflicts.push_back({{"key", edit.key}, {"author", edit.author}, {"set", set_of(edit)}});
  const std::vector<std::string> keys(
      all.keys.begin(), all.keys.begin() + static_cast<ptrdiff_t>(std::min(kNamed, all.keys.size())));
  json out{{"changed", all.keys.size()}, {"keys", keys}, {"conflicts", std::move(conflicts)}};
  out["at_work"] =
      std::ranges::any_of(data_.jobs(), [](const auto& job) { return source_of(job) != Source::items; });
  out["version"] = data_.version();
  // It fails if the clip's job begins just now.
  const auto whole =
      core::catching([&] { return clip ? detail_json(data_, *clip, meaning_.offer().pictures) : json(); });
  out["clip"] = whole ? *whole : json();
  return out;
}

json Studio::copies(const json& request) {
  const Lock lock(mutex_);
  data_.refresh();
  size_t gone = 0;
  const auto clips = targets(request, false, gone);
  const std::set<const Clip*> chosen(clips.begin(), clips.end());
  std::set<const Clip*> copies;
  json keys = json::array();
  int64_t replaced = 0, accepted = 0;
  for (const Clip* clip : clips) {
    bool has_one = false;
    accepted += data_.edits_of(*clip).keep == true;
    for (const auto& id : data_.copies_left(*clip)) {
      const Clip& copy = data_.need(id);
      if (chosen.contains(&copy)) continue;
      has_one = true;
      if (copies.insert(&copy).second && keys.size() < kNamed) keys.push_back(copy.key);
    }
    replaced += has_one;
  }
  return {
      {"copies", copies.size()}, {"keys", std::move(keys)}, {"replaced", replaced}, {"accepted", accepted}};
}

json Studio::save_view(const json& request) {
  const std::string name = core::trimmed(core::text_in(request, "name"));
  const json view = request.is_object() ? request.value("view", json()) : json();
  if (name.empty() || name.size() > 200 || !(view.is_null() || view.is_string()))
    throw Error(KINORA_ERROR_INVALID,
                R"(expected {"name": a text of 1 to 200 bytes, "view": PARAMETERS or null})");
  const Lock lock(mutex_);
  saved_views_.save({{"name", name},
                     {"view", view},
                     {"where", core::text_in(request, "where")},
                     {"author", data_.journals().front().author()},
                     {"time", time_now()}});
  return saved_views_.all();
}

// Undoes or redoes the author's last step in any job, by time. A step of several jobs has one time.
json Studio::stepped(bool back) {
  const Lock lock(mutex_);
  data_.refresh(true);
  const auto next = [&](const EditJournal& journal) {
    const auto step =
        back ? journal.history().undoable(journal.author()) : journal.history().redoable(journal.author());
    return step.empty() ? "" : step.front()->time;
  };
  std::string time;
  for (const auto& journal : data_.journals())
    if (const std::string its = next(journal);
        time.empty() || (!its.empty() && (back ? its > time : its < time)))
      time = its;
  Saved all;
  std::vector<std::string> ids;
  for (size_t job = 0; job < data_.jobs().size(); ++job) {
    if (next(data_.journals()[job]) != time) continue;
    const auto own = [&](const std::string& key) {
      const Clip* clip = data_.catalogue().find(data_.jobs()[job].name + "/" + key);
      return clip ? own_values(*clip) : Change{"", "", true, core::Tags()};
    };
    const Saved of_job =
        core::or_throw(back ? data_.journals()[job].undo(own) : data_.journals()[job].redo());
    for (const auto& key : of_job.keys) ids.push_back(data_.jobs()[job].name + "/" + key);
    std::ranges::copy(of_job.keys, std::back_inserter(all.keys));
    std::ranges::copy(of_job.conflicts, std::back_inserter(all.conflicts));
  }
  data_.change_version();
  return saved(all, ids.size() == 1 ? data_.catalogue().find(ids.front()) : nullptr);
}

json Studio::undo() { return stepped(true); }
json Studio::redo() { return stepped(false); }

}  // namespace kinora::studio
