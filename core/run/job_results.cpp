#include "core/run/job_results.hpp"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/io/atomic_file.hpp"
#include "core/run/job_edits.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Next to the folder, which may not be a job's.
fs::path failure_file(const fs::path& folder) {
  return folder.parent_path() / ("." + folder.filename().string() + ".failed");
}

json size_of_entry(const fs::directory_entry& entry) {
  if (!entry.is_directory()) return entry.file_size();
  return static_cast<uint64_t>(std::distance(fs::directory_iterator(entry.path()), fs::directory_iterator()));
}

}  // namespace

bool is_a_jobs(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "job.json", error);
}

bool has_begun(const fs::path& folder) {
  std::error_code error;
  const json made = results_in(folder);  // folders that were made for results may be empty
  return fs::exists(folder / "checkpoints", error) || fs::exists(folder / ".parts", error) ||
         std::any_of(made.begin(), made.end(), [](const json& size) { return size != 0; });
}

bool finished(const fs::path& folder, const std::string& digest, std::string* why) {
  const json summary = object_in_file(folder / "summary.json");
  if (text_in(summary, "digest") != digest || summary.value("status", json()) != "done") return false;
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
  return object_in_file(folder / "summary.json").value("status", json()) == "done";
}

int64_t failures_in(const fs::path& folder) {
  const json summary = object_in_file(folder / "summary.json");
  const auto failed = [](const json& counts) {
    const auto at = counts.find("failed");
    return at != counts.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
  };
  return failed(summary) + failed(summary.value("clips", json::object()));
}

std::string kept_by(const fs::path& folder, const std::string& digest) {
  const json summary = object_in_file(folder / "summary.json");
  const bool is_finished = text_in(summary, "digest") == digest && summary.value("status", json()) == "done";
  return is_finished ? text_in(summary, "kept_sha256") : "";
}

std::string problem_of_results(const fs::path& folder, const std::vector<std::string>& kinds) {
  const std::string kind = text_in(object_in_file(folder / "job.json"), "kind"), name = folder.string();
  if (kind.empty())
    return name + " is not the folder of a job (it has no job.json); give one such as runs/NAME/JOB";
  if (std::ranges::find(kinds, kind) == kinds.end())
    return fmt::format("{} is the folder of a {} job; it must be that of a {} job", name, kind,
                       fmt::join(kinds, " or "));
  if (!is_done(folder)) return name + ": its job has not finished; run it to its end first";
  return "";
}

std::string results_digest(const fs::path& folder) {
  const json summary = object_in_file(folder / "summary.json");
  for (const char* name : {"kept_sha256", "first_digest"})
    if (const std::string digest = text_in(summary, name); !digest.empty()) return digest;
  return text_in(summary, "digest");
}

void rename_results(const fs::path& folder, const json& spec, const ResultsNames& from,
                    const ResultsNames& to) {
  const auto write = [&](const char* name, const json& text) {
    or_throw(write_file_atomically(folder / name,
                                   text.dump(2, ' ', false, json::error_handler_t::replace) + "\n"));
  };
  json summary = object_in_file(folder / "summary.json"), job = object_in_file(folder / "job.json");
  if (text_in(summary, "digest") == from.digest && from.digest != to.digest) {
    if (text_in(summary, "first_digest").empty()) summary["first_digest"] = from.digest;
    summary["digest"] = to.digest;
    write("summary.json", summary);
  }
  if (text_in(job, "digest") == from.digest) job["digest"] = to.digest;
  if (text_in(job, "base") == from.base && from.base != to.base) {
    job["base"] = to.base;
    job["formerly"].push_back(from.base);
  }
  // With other options or inputs of the same base, the description stays that of the results.
  if (text_in(job, "digest") == to.digest) job.update(spec);
  write("job.json", job);
}

std::vector<std::string> bases_before(const fs::path& folder) {
  std::vector<std::string> out;
  const json job = object_in_file(folder / "job.json"), formerly = job.value("formerly", json::array());
  for (const auto& base : formerly)
    if (base.is_string()) out.push_back(base);
  return out;
}

void add_spent(const fs::path& folder, double seconds) {
  json job = object_in_file(folder / "job.json");
  if (job.empty()) return;
  job["spent_s"] = number_in(job, "spent_s") + seconds;
  (void)write_file_atomically(folder / "job.json", job.dump(2) + "\n");  // a full disk is said elsewhere
}

double spent_before(const fs::path& folder) {
  return number_in(object_in_file(folder / "job.json"), "spent_s");
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
  if (error || time < since || text_in(object_in_file(failure_file(folder)), "digest") != digest)
    return std::nullopt;
  return text_in(object_in_file(failure_file(folder)), "message");
}

void drop_failure(const fs::path& folder) {
  std::error_code ignored;
  fs::remove(failure_file(folder), ignored);
}

}  // namespace kinora::core
