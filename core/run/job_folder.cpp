#include "core/run/job_folder.hpp"

#include <algorithm>
#include <utility>

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
// those of an unfinished job,
fs::path unfinished(const fs::path& folder) {
  return folder.parent_path() / ("." + folder.filename().string() + ".unfinished");
}

// and the failure of rank 0, for the ranks that wait for it.
fs::path failure_file(const fs::path& folder) {
  return folder.parent_path() / ("." + folder.filename().string() + ".failed");
}

json known_in(const fs::path& folder) { return object_in_file(folder / "job.json"); }

void write_known(const fs::path& folder, const json& job) { write_json(folder / "job.json", job); }

bool is_a_jobs(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "job.json", error);
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

// Whether a folder with this job.json belongs to that job: if it has a base, with other inputs too, or before it grew.
bool is_of(const json& known, const JobIdentity& job) {
  return known.value("digest", json()) == job.digest ||
         (!job.base.empty() && known.value("base", json()) == job.base &&
          has_not_shrunk(known, job.description));
}

bool is_of(const fs::path& folder, const JobIdentity& job) { return is_of(known_in(folder), job); }

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

int64_t retries_in(const json& known) {
  const json n = known.value("retries", json());
  return n.is_number_integer() ? n.get<int64_t>() : 0;
}

// The folder with the results of the job of this base, its own or the one set aside, and its job.json; else this
// folder, and nothing.
std::pair<fs::path, json> earlier(const fs::path& folder, const std::string& base) {
  for (const fs::path& one : {folder, before(folder), unfinished(folder)})
    if (json known = known_in(one); !base.empty() && known.value("base", json()) == base)
      return {one, std::move(known)};
  return {folder, json::object()};
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
template <class Entries>
void sweep(Entries entries) {
  std::vector<fs::path> dead;
  for (const auto& entry : entries)
    if (is_abandoned(entry.path().filename().string())) dead.push_back(entry.path());
  for (const auto& path : dead) fs::remove_all(path);
}

}  // namespace

EarlierResults earlier_results(const fs::path& folder, const std::string& base) {
  const auto [place, known] = earlier(folder, base);
  EarlierResults out{place, retries_in(known), {}};
  for (const auto& one : known.value("formerly", json::array()))
    if (one.is_string()) out.formerly.push_back(one);
  return out;
}

void count_retry(const fs::path& folder, const std::string& base) {
  json job = known_in(folder);
  if (base.empty() || job.value("base", json()) != base) return;
  job["retries"] = retries_in(job) + 1;
  job.erase("digest");  // the digest depends on the number
  write_known(folder, job);
}

Beginning beginning(const fs::path& folder, const std::string& name, const JobIdentity& job, bool is_quick) {
  if (!is_a_jobs(folder)) return {};
  const json known = known_in(folder);
  const std::string what = known.empty() ? "" : changed(known, job.description), at = folder.string();
  if (is_of(known, job)) {
    const std::string digest = text_in(known, "digest");
    if (digest == job.digest || digest.empty()) return {folder, ""};
    if (!job.description.contains("grows_by"))
      return {folder, name + ": its inputs have changed; finished work on the remaining inputs is kept"};
    std::error_code missing;
    const bool has_checkpoint = !fs::is_empty(folder / "checkpoints", missing) && !missing;
    if (is_done(folder) && !has_checkpoint)
      throw Error(
          KINORA_ERROR_INVALID,
          fmt::format("{}: {}, and {} has no checkpoint to continue from; put one back, or start from "
                      "step 1 with --from-scratch",
                      name, what, at));
    return {folder, fmt::format("{}: {}; it continues from the results in {} (--from-scratch does not){}",
                                name, what, at, is_done(folder) ? "; these are kept until it is done" : "")};
  }
  Beginning out;
  for (const fs::path& aside : {unfinished(folder), before(folder), own_of(folder)})
    if (is_of(aside, job)) out.from = aside;
  const bool is_damaged = known.empty();
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

void log_beginning(const Beginning& begins) {
  if (!begins.said.empty()) log_line(begins.warns ? KINORA_LOG_WARN : KINORA_LOG_INFO, begins.said);
}

std::string reason_to_keep(const fs::path& folder, const JobIdentity& job) {
  const json known = known_in(folder);
  if (!is_a_jobs(folder) || is_of(known, job) || !(is_done(folder) || has_begun(folder))) return "";
  for (const fs::path& aside : {unfinished(folder), before(folder), own_of(folder)})
    if (is_of(aside, job)) return "";
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
    log_beginning({{}, name + ": it starts from scratch; the old results are kept until it is done"});
    const fs::path edits = set_aside(folder);
    fs::create_directories(folder);
    if (edits != folder) copy_edits(edits, folder);
  } else {
    log_beginning(beginning(folder, name, job, is_quick));
    if (is_mine && !is_of(folder, job))
      make_way(folder, job);
    else if (is_mine && job.description.contains("grows_by") && is_done(folder))
      continue_beside(folder);
  }
  fs::create_directories(folder);
  sweep(fs::recursive_directory_iterator(folder));
  drop_failure(folder);
  const double spent = is_of(folder, job) && !is_done(folder) ? spent_before(folder) : 0;
  fs::remove(folder / "summary.json", error);  // until the job is done
  if (!is_mine) find_edits(name, folder, lying_aside(folder));
  json written = job.description;
  written["digest"] = job.digest;
  if (!job.base.empty()) written["base"] = job.base;
  const json known = earlier(folder, job.base).second;
  for (const char* name : {"retries", "formerly"})
    if (known.contains(name)) written[name] = known[name];
  written["kinora"] = KINORA_VERSION;
  if (spent > 0) written["spent_s"] = spent;
  write_known(folder, written);
}

std::optional<AtomicFolder> prepare_beside(const fs::path& folder, const std::string& name,
                                           const JobIdentity& job) {
  if (!is_a_jobs(folder) || !is_done(folder)) return std::nullopt;
  sweep(fs::directory_iterator(folder.parent_path()));
  log_beginning(beginning(folder, name, job, true));
  AtomicFolder out = or_throw(AtomicFolder::create(folder));
  json written = job.description;
  written.update({{"digest", job.digest}, {"kinora", KINORA_VERSION}});
  write_known(out.temporary(), written);
  drop_failure(folder);
  return out;
}

bool may_take_back(const fs::path& folder, const std::string& digest) {
  // A job that was begun again from scratch continues.
  if (text_in(known_in(folder), "digest") == digest && has_begun(folder)) return false;
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

void add_spent(const fs::path& folder, double seconds) {
  json job = known_in(folder);
  if (job.empty()) return;
  job["spent_s"] = number_in(job, "spent_s") + seconds;
  (void)write_file_atomically(folder / "job.json", job.dump(2) + "\n");  // a full disk is said elsewhere
}

double spent_before(const fs::path& folder) { return number_in(known_in(folder), "spent_s"); }

void leave_failure(const fs::path& folder, const std::string& digest, const std::string& message) {
  // If this cannot be written either, the other ranks wait until they are stopped, and log one line per minute.
  const auto status = write_file_atomically(
      failure_file(folder),
      json{{"digest", digest}, {"message", message}}.dump(-1, ' ', false, json::error_handler_t::replace) +
          "\n");
  if (!status) log_warn("{}", status.failure().message);
}

std::optional<std::string> failure_left(const fs::path& folder, const std::string& digest,
                                        fs::file_time_type since) {
  std::error_code error;
  const auto time = fs::last_write_time(failure_file(folder), error);
  if (error || time < since) return std::nullopt;
  const json left = object_in_file(failure_file(folder));
  return text_in(left, "digest") == digest ? std::optional(text_in(left, "message")) : std::nullopt;
}

void drop_failure(const fs::path& folder) {
  std::error_code ignored;
  fs::remove(failure_file(folder), ignored);
}

}  // namespace kinora::core
