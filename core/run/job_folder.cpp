#include "core/run/job_folder.hpp"

#include <algorithm>
#include <array>
#include <fstream>

#include "core/build_info.hpp"
#include "core/io/atomic_file.hpp"
#include "core/log.hpp"
#include "core/run/difference.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read_json(const fs::path& file) {
  std::ifstream in(file);
  auto value = json::parse(in, nullptr, false);
  return value.is_object() ? value : json::object();
}

std::string digest_in(const fs::path& file) {
  const json value = read_json(file);
  const auto it = value.find("digest");
  return it != value.end() && it->is_string() ? it->get<std::string>() : "";
}

// Beside the folder, which may not be a job's.
fs::path failure_file(const fs::path& folder) {
  return folder.parent_path() / ("." + folder.filename().string() + ".failed");
}

// Beside the folder: the results that a job with other options or inputs had finished.
fs::path before(const fs::path& folder) {
  return folder.parent_path() / ("." + folder.filename().string() + ".before");
}

bool is_a_jobs(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "job.json", error);
}
bool is_nobodys(const fs::path& folder) {
  std::error_code error;
  return !fs::exists(folder, error) || fs::is_empty(folder, error);
}

// What was set aside takes the place of what a job, never anybody else, left in the folder.
void put_back(const fs::path& folder) {
  fs::remove_all(folder);
  fs::rename(before(folder), folder);
}

// What the user wrote into the folder of a curate job by the studio.
constexpr const char* kEdits = "edits.jsonl";

void set_aside(const fs::path& folder, const std::string& name, const json& spec) {
  const std::string what = difference(read_json(folder / "job.json"), spec);
  log_warn("{}: its options or inputs are not those of the results in {} ({}); it starts again{}", name,
           folder.string(), what.empty() ? "its inputs or the seed have changed" : what,
           is_done(folder) ? ", and they are kept until it is done" : "");
  if (is_done(folder)) {
    fs::remove_all(before(folder));
    fs::rename(folder, before(folder));
    return;
  }
  std::vector<fs::path> made;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename() != kEdits) made.push_back(entry.path());
  for (const auto& path : made) fs::remove_all(path);
}

void bring_edits(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kEdits, error)) return;
  std::ifstream in(before(folder) / kEdits, std::ios::binary);
  const std::string edits{std::istreambuf_iterator<char>(in), {}};
  if (!edits.empty()) or_throw(write_file_atomically(folder / kEdits, edits));
}

json size_of_entry(const fs::directory_entry& entry) {
  if (!entry.is_directory()) return entry.file_size();
  return static_cast<uint64_t>(std::distance(fs::directory_iterator(entry.path()), fs::directory_iterator()));
}

// Whether a job has made anything there that is worth going on with.
bool has_begun(const fs::path& folder) {
  std::error_code error;
  const json made = results_in(folder);  // folders that were made for results may be empty
  return fs::exists(folder / "checkpoints", error) || fs::exists(folder / ".parts", error) ||
         std::any_of(made.begin(), made.end(), [](const json& size) { return size != 0; });
}

// Temporaries whose process was killed.
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

void prepare_folder(const fs::path& folder, const std::string& name, const json& spec,
                    const std::string& digest, const std::string& base) {
  std::error_code error;
  const bool is_mine = is_a_jobs(folder);
  if (!is_mine && !is_nobodys(folder))
    throw Error(KINORA_INVALID,
                folder.string() +
                    " holds files that no job made (it has no job.json); choose another output folder "
                    "with --out, another name for job '" +
                    name + "', or move them away");
  if (is_mine && digest_in(folder / "job.json") != digest) {
    if (!base.empty() && read_json(folder / "job.json").value("base", json()) == base) {
      log_info("{}: its inputs have changed; what is done of those that stay is kept", name);
    } else {
      set_aside(folder, name, spec);
    }
  }
  fs::create_directories(folder);
  sweep(folder);
  fs::remove(failure_file(folder), error);
  fs::remove(folder / "summary.json", error);  // until the job is done again
  bring_edits(folder);
  json written = spec;
  written["digest"] = digest;
  if (!base.empty()) written["base"] = base;
  written["kinora"] = KINORA_VERSION;
  or_throw(write_file_atomically(folder / "job.json", written.dump(2) + "\n"));
}

bool take_back(const fs::path& folder, const std::string& digest) {
  if (!finished(before(folder), digest) || (!is_a_jobs(folder) && !is_nobodys(folder))) return false;
  put_back(folder);
  return true;
}

bool take_back_after_failure(const fs::path& folder) {
  if (has_begun(folder) || !is_a_jobs(folder) || !is_done(before(folder))) return false;
  put_back(folder);
  return true;
}

void drop_if_empty(const fs::path& folder) {
  if (has_begun(folder) || !is_a_jobs(folder)) return;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  fs::remove(failure_file(folder), ignored);
}

void drop_before(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(before(folder), ignored);
}

bool is_record(std::string_view name) {
  constexpr std::array<std::string_view, 9> kRecords{"job.json",     "summary.json", "metrics.jsonl",
                                                     "journal.jsonl", kEdits,        "metrics.prom",
                                                     "live.json",    "trace.json",   "checkpoints"};
  return name.starts_with(".") || std::find(kRecords.begin(), kRecords.end(), name) != kRecords.end();
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
  // If this cannot be written either, the others wait until they are stopped, with a line a minute.
  const auto status = write_file_atomically(failure_file(folder),
                                            json{{"digest", digest}, {"message", message}}.dump() + "\n");
  if (!status) log_warn("{}", status.failure().message);
}

std::optional<std::string> failure_left(const fs::path& folder, const std::string& digest,
                                        fs::file_time_type since) {
  std::error_code error;
  const auto time = fs::last_write_time(failure_file(folder), error);
  if (error || time < since || digest_in(failure_file(folder)) != digest) return std::nullopt;
  return read_json(failure_file(folder)).value("message", "no message");
}

}  // namespace kinora::core
