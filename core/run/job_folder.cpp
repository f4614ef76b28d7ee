#include "core/run/job_folder.hpp"

#include <algorithm>
#include <array>
#include <fstream>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/build_info.hpp"
#include "core/io/atomic_file.hpp"
#include "core/run/identity.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read_json(const fs::path& file) { return object_in_file(file); }

std::string digest_in(const fs::path& file) {
  const json value = read_json(file);
  const auto it = value.find("digest");
  return it != value.end() && it->is_string() ? it->get<std::string>() : "";
}

// Next to the folder, which may not be a job's.
fs::path failure_file(const fs::path& folder) {
  return folder.parent_path() / ("." + folder.filename().string() + ".failed");
}

// Next to the folder: the results that a job with other options or inputs had finished,
fs::path before(const fs::path& folder) {
  return folder.parent_path() / ("." + folder.filename().string() + ".before");
}
// and those of an unfinished job.
fs::path unfinished(const fs::path& folder) {
  return folder.parent_path() / ("." + folder.filename().string() + ".unfinished");
}

bool is_a_jobs(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "job.json", error);
}
bool is_nobodys(const fs::path& folder) {
  std::error_code error;
  return !fs::exists(folder, error) || fs::is_empty(folder, error);
}

// The user's edits and views in the folder of a curate job, to which the studio appends.
constexpr std::array<std::string_view, 2> kEdits{"edits.jsonl", "views.jsonl"};

bool is_edits(std::string_view name) { return std::ranges::find(kEdits, name) != kEdits.end(); }

// Copies the edits of one folder over those of another. A person removed a file that is missing in the first.
void copy_edits(const fs::path& from, const fs::path& to) {
  for (const auto name : kEdits) {
    std::ifstream in(from / name, std::ios::binary);
    if (in)
      or_throw(write_file_atomically(to / name, std::string{std::istreambuf_iterator<char>(in), {}}));
    else if (!fs::exists(from / name))
      fs::remove(to / name);
    else
      throw Error(KINORA_ERROR_IO, (from / name).string() + ": it cannot be read; make it readable");
  }
}

// For a folder that is gone, or that a killed process had not filled yet: the newer edits of those set aside.
void find_edits(const std::string& job, const fs::path& folder) {
  for (const auto name : kEdits) {
    std::error_code error;
    const auto time = [&](const fs::path& aside) {
      const auto at = fs::last_write_time(aside / name, error);
      return error ? fs::file_time_type::min() : at;
    };
    const fs::path from =
        time(before(folder)) < time(unfinished(folder)) ? unfinished(folder) : before(folder);
    std::ifstream in(from / name, std::ios::binary);
    if (!in) continue;
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    or_throw(write_file_atomically(folder / name, text));
    log_info("{}: {} of {} taken from {}, because {} had none yet", job,
             counted(std::ranges::count(text, '\n'), "line", "lines"), name, from.string(), folder.string());
  }
}

// Replaces the folder's contents, which only a job may have made, by the results set aside.
void put_back(const fs::path& folder, const fs::path& aside) {
  if (is_a_jobs(folder)) copy_edits(folder, aside);
  fs::remove_all(folder);
  fs::rename(aside, folder);
}

// Whether no option by which the job may grow (spec's "grows_by") is smaller than in the folder.
bool has_not_shrunk(const json& known, const json& spec) {
  const json none = json::object(), before = known.value("options", none), now = spec.value("options", none);
  const auto grows_by = spec.value("grows_by", std::vector<std::string>());
  return std::all_of(grows_by.begin(), grows_by.end(), [&](const std::string& option) {
    return before.value(option, json()) <= now.value(option, json());
  });
}

// Whether the folder belongs to that job: if it has a base, with other inputs too, or before it grew.
bool is_of(const fs::path& folder, const json& spec, const std::string& digest, const std::string& base) {
  const json job = read_json(folder / "job.json");
  return job.value("digest", json()) == digest ||
         (!base.empty() && job.value("base", json()) == base && has_not_shrunk(job, spec));
}

json size_of_entry(const fs::directory_entry& entry) {
  if (!entry.is_directory()) return entry.file_size();
  return static_cast<uint64_t>(std::distance(fs::directory_iterator(entry.path()), fs::directory_iterator()));
}

// Whether a job has made anything there that is worth resuming.
bool has_begun(const fs::path& folder) {
  std::error_code error;
  const json made = results_in(folder);  // folders that were made for results may be empty
  return fs::exists(folder / "checkpoints", error) || fs::exists(folder / ".parts", error) ||
         std::any_of(made.begin(), made.end(), [](const json& size) { return size != 0; });
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
  const json job = read_json(results_of(folder, base) / "job.json");
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
void make_way(const fs::path& folder, const json& spec, const std::string& digest, const std::string& base) {
  const fs::path own = own_of(folder);
  for (const fs::path& aside : {before(folder), unfinished(folder)})
    if (!is_of(own, spec, digest, base) && is_of(aside, spec, digest, base)) {
      fs::remove_all(own);
      fs::rename(aside, own);
    }
  const bool goes_on = is_of(own, spec, digest, base);
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

bool finished(const fs::path& folder, const std::string& digest, std::string* why) {
  const json summary = read_json(folder / "summary.json");
  if (digest_in(folder / "summary.json") != digest || summary.value("status", json()) != "done") return false;
  const json results = summary.value("results", json::object());
  for (const auto& [name, size] : results.items()) {
    const fs::directory_entry entry(folder / name);
    if (entry.exists() && size_of_entry(entry) == size) continue;
    if (why) *why = fmt::format("'{}' is {}", name, entry.exists() ? "not what the job had made" : "gone");
    return false;
  }
  return true;
}

bool is_done(const fs::path& folder) {
  return read_json(folder / "summary.json").value("status", json()) == "done";
}

int64_t failures_in(const fs::path& folder) {
  const json summary = read_json(folder / "summary.json");
  const auto failed = [](const json& counts) {
    const auto at = counts.find("failed");
    return at != counts.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
  };
  return failed(summary) + failed(summary.value("clips", json::object()));
}

fs::path results_of(const fs::path& folder, const std::string& base) {
  for (const fs::path& one : {folder, before(folder), unfinished(folder)})
    if (!base.empty() && read_json(one / "job.json").value("base", json()) == base) return one;
  return folder;
}

int64_t retries(const fs::path& folder, const std::string& base) {
  return number_of(folder, base, "retries");
}

std::string kept_by(const fs::path& folder, const std::string& digest) {
  const json summary = read_json(folder / "summary.json");
  const bool is_finished =
      digest_in(folder / "summary.json") == digest && summary.value("status", json()) == "done";
  return is_finished ? text_in(summary, "kept_sha256") : "";
}

std::string problem_of_results(const fs::path& folder, const std::vector<std::string>& kinds) {
  const std::string kind = text_in(read_json(folder / "job.json"), "kind"), name = folder.string();
  if (kind.empty())
    return name + " is not the folder of a job (it has no job.json); give one such as runs/NAME/JOB";
  if (std::ranges::find(kinds, kind) == kinds.end())
    return fmt::format("{} is the folder of a {} job; it must be that of a {} job", name, kind,
                       fmt::join(kinds, " or "));
  if (!is_done(folder)) return name + ": its job has not finished; run it to its end first";
  return "";
}

std::string results_digest(const fs::path& folder) {
  const std::string kept = text_in(read_json(folder / "summary.json"), "kept_sha256");
  return kept.empty() ? digest_in(folder / "summary.json") : kept;
}

void count_retry(const fs::path& folder, const std::string& base) {
  json job = read_json(folder / "job.json");
  if (base.empty() || job.value("base", json()) != base) return;
  job["retries"] = retries(folder, base) + 1;
  job.erase("digest");  // the digest depends on the number
  or_throw(write_file_atomically(folder / "job.json", job.dump(2) + "\n"));
}

void add_spent(const fs::path& folder, double seconds) {
  json job = read_json(folder / "job.json");
  if (job.empty()) return;
  job["spent_s"] = number_in(job, "spent_s") + seconds;
  (void)write_file_atomically(folder / "job.json", job.dump(2) + "\n");  // a full disk is said elsewhere
}

double spent_before(const fs::path& folder) { return number_in(read_json(folder / "job.json"), "spent_s"); }

Beginning beginning(const fs::path& folder, const std::string& name, const json& spec,
                    const std::string& digest, const std::string& base, bool is_quick) {
  if (!is_a_jobs(folder)) return {};
  const std::string known = digest_in(folder / "job.json");
  if (is_of(folder, spec, digest, base)) {
    if (known == digest || known.empty()) return {folder, ""};
    if (!spec.contains("grows_by"))
      return {folder, name + ": its inputs have changed; finished work on the remaining inputs is kept"};
    return {folder, fmt::format("{}: {}; it continues from the results in {} (--from-scratch does not){}",
                                name, changed(read_json(folder / "job.json"), spec), folder.string(),
                                is_done(folder) ? "; these are kept until it is done" : "")};
  }
  Beginning out;
  for (const fs::path& aside : {unfinished(folder), before(folder), own_of(folder)})
    if (is_of(aside, spec, digest, base)) out.from = aside;
  const std::string what = changed(read_json(folder / "job.json"), spec);
  out.warns = !what.empty() && !is_quick;
  out.said = fmt::format(
      "{}: {}; it {}{}", name,
      what.empty() ? "its inputs have changed since the results in " + folder.string() + " were made"
      : is_quick   ? what
                   : "its options or inputs differ from those of the results in " + folder.string() + " (" +
                       what + ")",
      !out.from.empty() ? "continues its earlier results for these options"
      : is_quick        ? "runs again"
                        : "starts from scratch",
      is_done(folder) || has_begun(folder) ? "; the old results are kept until it is done" : "");
  return out;
}

std::string reason_to_keep(const fs::path& folder, const json& spec, const std::string& digest,
                           const std::string& base) {
  if (!is_a_jobs(folder) || is_of(folder, spec, digest, base) || !(is_done(folder) || has_begun(folder)))
    return "";
  for (const fs::path& aside : {unfinished(folder), before(folder), own_of(folder)})
    if (is_of(aside, spec, digest, base)) return "";
  const json known = read_json(folder / "job.json");
  const auto differs = [&](const char* name) {
    return known.contains(name) && known[name] != spec.value(name, json());
  };
  std::vector<std::string> why;
  if (differs("file")) why.push_back("they were made by the run file " + text_in(known, "file"));
  if (differs("paths"))
    why.push_back("they are of the input " +
                  known["paths"].dump(-1, ' ', false, json::error_handler_t::replace));
  std::ifstream edits(folder / kEdits[0], std::ios::binary);
  if (const auto lines = std::count(std::istreambuf_iterator<char>(edits), {}, '\n'); lines > 0)
    why.push_back("people have made " + counted(lines, "edit", "edits") + " in the studio");
  return fmt::format("{}", fmt::join(why, ", and "));
}

void prepare_folder(const fs::path& folder, const std::string& name, const json& spec,
                    const std::string& digest, const std::string& base, bool is_quick, bool from_scratch) {
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
    const Beginning begins = beginning(folder, name, spec, digest, base, is_quick);
    if (!begins.said.empty()) log_line(begins.warns ? KINORA_LOG_WARN : KINORA_LOG_INFO, begins.said);
    if (is_mine && !is_of(folder, spec, digest, base))
      make_way(folder, spec, digest, base);
    else if (is_mine && spec.contains("grows_by") && is_done(folder))
      continue_beside(folder);
  }
  fs::create_directories(folder);
  sweep(folder);
  fs::remove(failure_file(folder), error);
  const double spent = is_of(folder, spec, digest, base) && !is_done(folder) ? spent_before(folder) : 0;
  fs::remove(folder / "summary.json", error);  // until the job is done
  if (!is_mine) find_edits(name, folder);
  json written = spec;
  written["digest"] = digest;
  if (!base.empty()) written["base"] = base;
  if (json known = known_of(folder, base, "retries"); !known.is_null()) written["retries"] = std::move(known);
  written["kinora"] = KINORA_VERSION;
  if (spent > 0) written["spent_s"] = spent;
  or_throw(write_file_atomically(folder / "job.json", written.dump(2) + "\n"));
}

std::optional<AtomicFolder> prepare_beside(const fs::path& folder, const std::string& name, const json& spec,
                                           const std::string& digest) {
  if (!is_a_jobs(folder) || !is_done(folder)) return std::nullopt;
  std::vector<fs::path> dead;
  for (const auto& entry : fs::directory_iterator(folder.parent_path()))
    if (is_abandoned(entry.path().filename().string())) dead.push_back(entry.path());
  for (const auto& path : dead) fs::remove_all(path);
  const Beginning begins = beginning(folder, name, spec, digest, "", true);
  if (!begins.said.empty()) log_info("{}", begins.said);
  AtomicFolder out = or_throw(AtomicFolder::create(folder));
  json written = spec;
  written.update({{"digest", digest}, {"kinora", KINORA_VERSION}});
  or_throw(write_file_atomically(out.temporary() / "job.json", written.dump(2) + "\n"));
  std::error_code ignored;
  fs::remove(failure_file(folder), ignored);
  return out;
}

bool may_take_back(const fs::path& folder, const std::string& digest) {
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
  fs::remove(failure_file(folder), ignored);
}

std::vector<fs::path> lying_aside(const fs::path& folder) { return {before(folder), unfinished(folder)}; }

void drop_before(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(before(folder), ignored);
  fs::remove_all(unfinished(folder), ignored);
}

bool is_record(std::string_view name) {
  constexpr std::array<std::string_view, 7> kRecords{
      "job.json", "summary.json", "metrics.jsonl", "metrics.prom", "live.json", "trace.json", "checkpoints"};
  return name.starts_with(".") || name.starts_with("record.db") || is_edits(name) ||
         std::find(kRecords.begin(), kRecords.end(), name) != kRecords.end();
}

json results_in(const fs::path& folder) {
  json out = json::object();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!is_record(name)) out[name] = size_of_entry(entry);
  }
  return out;
}

void leave_failure(const fs::path& folder, const std::string& digest, const std::string& message) {
  // If this cannot be written either, the other ranks wait until they are stopped, and log one line per
  // minute.
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
  if (error || time < since || digest_in(failure_file(folder)) != digest) return std::nullopt;
  return text_in(read_json(failure_file(folder)), "message");
}

}  // namespace kinora::core
