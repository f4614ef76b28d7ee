#include "core/run/job_folder.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/build_info.hpp"
#include "core/io/atomic_file.hpp"
#include "core/run/description.hpp"
#include "core/run/job_edits.hpp"
#include "core/run/job_results.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Next to the folder: the results that a job with other options or inputs had finished,
fs::path before(const fs::path& folder) {
  return folder.parent_path() / ("." + folder.filename().string() + ".before");
}
// and those of an unfinished job.
fs::path unfinished(const fs::path& folder) {
  return folder.parent_path() / ("." + folder.filename().string() + ".unfinished");
}

bool is_nobodys(const fs::path& folder) {
  std::error_code error;
  return !fs::exists(folder, error) || fs::is_empty(folder, error);
}

// Replaces the folder's contents, which only a job may have made, by the results set aside.
void put_back(const fs::path& folder, const fs::path& aside) {
  if (is_a_jobs(folder)) copy_edits(folder, aside);
  fs::remove_all(folder);
  fs::rename(aside, folder);
}

// Whether no option by which the job may grow (its "grows_by") is smaller than in the folder.
bool has_not_shrunk(const json& known, const json& job) {
  const json none = json::object(), before = known.value("options", none), now = job.value("options", none);
  const auto grows_by = job.value("grows_by", std::vector<std::string>());
  return std::all_of(grows_by.begin(), grows_by.end(), [&](const std::string& option) {
    return before.value(option, json()) <= now.value(option, json());
  });
}

// Whether the folder belongs to that job: if it has a base, with other inputs too, or before it grew.
bool is_of(const fs::path& folder, const JobIdentity& job) {
  const json known = object_in_file(folder / "job.json");
  return known.value("digest", json()) == job.digest ||
         (!job.base.empty() && known.value("base", json()) == job.base &&
          has_not_shrunk(known, job.description));
}

// Renames the folder if it has results; of a folder without results it keeps the user's edits. Returns where the
// edits are now.
fs::path set_aside(const fs::path& folder) {
  if (is_done(folder) || has_begun(folder)) {
    const fs::path place = is_done(folder) ? before(folder) : unfinished(folder);
    fs::remove_all(place);
    fs::rename(folder, place);
    return place;
  }
  std::vector<fs::path> made;
  for (const auto& entry : fs::directory_iterator(folder))
    if (!is_edits(entry.path().filename().string())) made.push_back(entry.path());
  for (const auto& path : made) fs::remove_all(path);
  return folder;
}

// The job's options that differ from those in its folder, in words; empty: only its inputs have changed.
std::string changed(const json& known, const json& spec) {
  if (const std::string what = difference(known, spec); !what.empty()) return what;
  const json before = known.value("seed", json()), now = spec.value("seed", json());
  if (!before.is_null() && !now.is_null() && before != now)
    return fmt::format("run.seed was {} and is {}", before.dump(), now.dump());
  return "";
}

// The member `name` of job.json for the job of this base, in its folder or set aside; null: none.
json known_of(const fs::path& folder, const std::string& base, const char* name) {
  const json job = object_in_file(results_of(folder, base) / "job.json");
  return !base.empty() && job.value("base", json()) == base ? job.value(name, json()) : json();
}

int64_t number_of(const fs::path& folder, const std::string& base, const char* name) {
  const json n = known_of(folder, base, name);
  return n.is_number_integer() ? n.get<int64_t>() : 0;
}

// Temporary name for this job's earlier results while they are moved back.
fs::path own_of(const fs::path& folder) {
  return folder.parent_path() / ("." + folder.filename().string() + ".own");
}

// Moves another job's results aside and restores the earlier results of this job, if there are any.
void make_way(const fs::path& folder, const JobIdentity& job) {
  const fs::path own = own_of(folder);
  for (const fs::path& aside : {before(folder), unfinished(folder)})
    if (!is_of(own, job) && is_of(aside, job)) {
      fs::remove_all(own);
      fs::rename(aside, own);
    }
  const bool goes_on = is_of(own, job);
  const fs::path edits = set_aside(folder);
  if (!goes_on) fs::create_directories(folder);
  if (const fs::path& next = goes_on ? own : folder; edits != next) copy_edits(edits, next);
  if (goes_on) put_back(folder, own);
}

// Sets a finished job's results aside and begins its continuation with its checkpoints, as links where the file system
// has them, and what it writes step by step. Weights, which the end writes, stay behind.
void continue_beside(const fs::path& folder) {
  const fs::path aside = set_aside(folder);
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(aside)) {
    const fs::path to = folder / entry.path().filename();
    if (to.filename().string().find(".safetensors") != std::string::npos) continue;
    std::error_code error;
    const auto how = fs::copy_options::recursive;
    if (entry.path().filename() == "checkpoints")
      fs::copy(entry.path(), to, how | fs::copy_options::create_hard_links, error);
    if (entry.path().filename() != "checkpoints" || error)
      fs::copy(entry.path(), to, how | fs::copy_options::overwrite_existing);
  }
}

// Removes temporary files of killed processes.
void sweep(const fs::path& folder) {
  std::vector<fs::path> dead;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (is_abandoned(entry.path().filename().string())) dead.push_back(entry.path());
  for (const auto& path : dead) fs::remove_all(path);
}

}  // namespace

fs::path results_of(const fs::path& folder, const std::string& base) {
  for (const fs::path& one : {folder, before(folder), unfinished(folder)})
    if (!base.empty() && object_in_file(one / "job.json").value("base", json()) == base) return one;
  return folder;
}

int64_t retries(const fs::path& folder, const std::string& base) {
  return number_of(folder, base, "retries");
}

void count_retry(const fs::path& folder, const std::string& base) {
  json job = object_in_file(folder / "job.json");
  if (base.empty() || job.value("base", json()) != base) return;
  job["retries"] = retries(folder, base) + 1;
  job.erase("digest");  // the digest depends on the number
  or_throw(write_file_atomically(folder / "job.json", job.dump(2) + "\n"));
}

Beginning beginning(const fs::path& folder, const std::string& name, const JobIdentity& job, bool is_quick) {
  if (!is_a_jobs(folder)) return {};
  const std::string known = text_in(object_in_file(folder / "job.json"), "digest");
  if (is_of(folder, job)) {
    if (known == job.digest || known.empty()) return {folder, ""};
    if (!job.description.contains("grows_by"))
      return {folder, name + ": its inputs have changed; finished work on the remaining inputs is kept"};
    std::error_code missing;
    const bool has_checkpoint = !fs::is_empty(folder / "checkpoints", missing) && !missing;
    if (is_done(folder) && !has_checkpoint)
      throw Error(
          KINORA_ERROR_INVALID,
          fmt::format("{}: {}, and {} has no checkpoint to continue from; put one back, or start from "
                      "step 1 with --from-scratch",
                      name, changed(object_in_file(folder / "job.json"), job.description), folder.string()));
    return {folder, fmt::format("{}: {}; it continues from the results in {} (--from-scratch does not){}",
                                name, changed(object_in_file(folder / "job.json"), job.description),
                                folder.string(), is_done(folder) ? "; these are kept until it is done" : "")};
  }
  Beginning out;
  for (const fs::path& aside : {unfinished(folder), before(folder), own_of(folder)})
    if (is_of(aside, job)) out.from = aside;
  const json known_there = object_in_file(folder / "job.json");
  const bool is_damaged = known_there.empty();
  const std::string what = is_damaged ? "" : changed(known_there, job.description), at = folder.string();
  out.warns = (is_damaged || !what.empty()) && !is_quick;
  out.said = fmt::format(
      "{}: {}; it {}{}", name,
      is_damaged
          ? at + "/job.json is damaged (empty or cut off), so nothing says of which options its results are"
      : what.empty() ? "its inputs have changed since the results in " + at + " were made"
      : is_quick     ? what
                     : "its options or inputs differ from those of the results in " + at + " (" + what + ")",
      !out.from.empty() ? "continues its earlier results for these options"
      : is_quick        ? "runs again"
                        : "starts from scratch",
      is_done(folder) || has_begun(folder) ? "; the old results are kept until it is done" : "");
  return out;
}

std::string reason_to_keep(const fs::path& folder, const JobIdentity& job) {
  if (!is_a_jobs(folder) || is_of(folder, job) || !(is_done(folder) || has_begun(folder))) return "";
  for (const fs::path& aside : {unfinished(folder), before(folder), own_of(folder)})
    if (is_of(aside, job)) return "";
  const json known = object_in_file(folder / "job.json");
  const auto differs = [&](const char* name) {
    return known.contains(name) && known[name] != job.description.value(name, json());
  };
  std::vector<std::string> why;
  if (differs("file")) why.push_back("they were made by the run file " + text_in(known, "file"));
  if (differs("paths"))
    why.push_back("they are of the input " +
                  known["paths"].dump(-1, ' ', false, json::error_handler_t::replace));
  if (const auto edits = edits_in(folder); edits > 0)
    why.push_back("people have made " + counted(edits, "edit", "edits") + " in the studio");
  return fmt::format("{}", fmt::join(why, ", and "));
}

void prepare_folder(const fs::path& folder, const std::string& name, const JobIdentity& job, bool is_quick,
                    bool from_scratch) {
  std::error_code error;
  const bool is_mine = is_a_jobs(folder);
  if (!is_mine && !is_nobodys(folder))
    throw Error(KINORA_ERROR_INVALID,
                folder.string() +
                    " holds files that no job made (it has no job.json); choose another output folder "
                    "with --out, another name for job '" +
                    name + "', or move them away");
  if (is_mine && from_scratch) {
    log_info("{}: it starts from scratch; the old results are kept until it is done", name);
    const fs::path edits = set_aside(folder);
    fs::create_directories(folder);
    if (edits != folder) copy_edits(edits, folder);
  } else {
    const Beginning begins = beginning(folder, name, job, is_quick);
    if (!begins.said.empty()) log_line(begins.warns ? KINORA_LOG_WARN : KINORA_LOG_INFO, begins.said);
    if (is_mine && !is_of(folder, job))
      make_way(folder, job);
    else if (is_mine && job.description.contains("grows_by") && is_done(folder))
      continue_beside(folder);
  }
  fs::create_directories(folder);
  sweep(folder);
  drop_failure(folder);
  const double spent = is_of(folder, job) && !is_done(folder) ? spent_before(folder) : 0;
  fs::remove(folder / "summary.json", error);  // until the job is done
  if (!is_mine) find_edits(name, folder, lying_aside(folder));
  json written = job.description;
  written["digest"] = job.digest;
  if (!job.base.empty()) written["base"] = job.base;
  for (const char* name : {"retries", "formerly"})
    if (json known = known_of(folder, job.base, name); !known.is_null()) written[name] = std::move(known);
  written["kinora"] = KINORA_VERSION;
  if (spent > 0) written["spent_s"] = spent;
  or_throw(write_file_atomically(folder / "job.json", written.dump(2) + "\n"));
}

std::optional<AtomicFolder> prepare_beside(const fs::path& folder, const std::string& name,
                                           const JobIdentity& job) {
  if (!is_a_jobs(folder) || !is_done(folder)) return std::nullopt;
  std::vector<fs::path> dead;
  for (const auto& entry : fs::directory_iterator(folder.parent_path()))
    if (is_abandoned(entry.path().filename().string())) dead.push_back(entry.path());
  for (const auto& path : dead) fs::remove_all(path);
  const Beginning begins = beginning(folder, name, job, true);
  if (!begins.said.empty()) log_info("{}", begins.said);
  AtomicFolder out = or_throw(AtomicFolder::create(folder));
  json written = job.description;
  written.update({{"digest", job.digest}, {"kinora", KINORA_VERSION}});
  or_throw(write_file_atomically(out.temporary() / "job.json", written.dump(2) + "\n"));
  drop_failure(folder);
  return out;
}

bool may_take_back(const fs::path& folder, const std::string& digest) {
  // A job that was begun again from scratch continues.
  if (text_in(object_in_file(folder / "job.json"), "digest") == digest && has_begun(folder)) return false;
  return finished(before(folder), digest) && (is_a_jobs(folder) || is_nobodys(folder));
}

bool take_back(const fs::path& folder, const std::string& digest) {
  if (!may_take_back(folder, digest)) return false;
  const fs::path aside = before(folder);
  if (is_a_jobs(folder) && has_begun(folder)) {
    copy_edits(folder, aside);
    fs::remove_all(unfinished(folder));
    fs::rename(folder, unfinished(folder));
  }
  put_back(folder, aside);
  return true;
}

bool take_back_after_failure(const fs::path& folder) {
  if (has_begun(folder) || !is_a_jobs(folder)) return false;
  const fs::path aside = is_done(before(folder)) ? before(folder) : unfinished(folder);
  if (!is_a_jobs(aside)) return false;
  put_back(folder, aside);
  return true;
}

void drop_if_empty(const fs::path& folder) {
  if (has_begun(folder) || !is_a_jobs(folder)) return;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  drop_failure(folder);
}

std::vector<fs::path> lying_aside(const fs::path& folder) { return {before(folder), unfinished(folder)}; }

void drop_before(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(before(folder), ignored);
  fs::remove_all(unfinished(folder), ignored);
}

}  // namespace kinora::core
