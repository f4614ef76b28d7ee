#include "core/run/job_results.hpp"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/io/atomic_file.hpp"
#include "core/run/job_edits.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json summary_in(const fs::path& folder) { return object_in_file(folder / "summary.json"); }

json size_of_entry(const fs::directory_entry& entry) {
  if (!entry.is_directory()) return entry.file_size();
  return static_cast<uint64_t>(std::distance(fs::directory_iterator(entry.path()), fs::directory_iterator()));
}

}  // namespace

bool has_begun(const fs::path& folder) {
  std::error_code error;
  const json made = results_in(folder);  // folders that were made for results may be empty
  return fs::exists(folder / "checkpoints", error) || fs::exists(folder / ".parts", error) ||
         std::any_of(made.begin(), made.end(), [](const json& size) { return size != 0; });
}

bool finished(const fs::path& folder, const std::string& digest, std::string* why) {
  const json summary = summary_in(folder);
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

bool is_done(const fs::path& folder) { return summary_in(folder).value("status", json()) == "done"; }

int64_t failures_in(const fs::path& folder) {
  const json summary = summary_in(folder);
  const auto failed = [](const json& counts) {
    const auto at = counts.find("failed");
    return at != counts.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
  };
  return failed(summary) + failed(summary.value("clips", json::object()));
}

std::string kept_by(const fs::path& folder, const std::string& digest) {
  const json summary = summary_in(folder);
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
  const json summary = summary_in(folder);
  for (const char* name : {"kept_sha256", "first_digest"})
    if (const std::string digest = text_in(summary, name); !digest.empty()) return digest;
  return text_in(summary, "digest");
}

void write_json(const fs::path& file, const json& value) {
  or_throw(write_file_atomically(file, value.dump(2, ' ', false, json::error_handler_t::replace) + "\n"));
}

void write_summary(const fs::path& folder, const json& summary) {
  write_json(folder / "summary.json", summary);
}

void rename_results(const fs::path& folder, const json& spec, const ResultsNames& from,
                    const ResultsNames& to) {
  json summary = summary_in(folder), job = object_in_file(folder / "job.json");
  if (text_in(summary, "digest") == from.digest && from.digest != to.digest) {
    if (text_in(summary, "first_digest").empty()) summary["first_digest"] = from.digest;
    summary["digest"] = to.digest;
    write_summary(folder, summary);
  }
  if (text_in(job, "digest") == from.digest) job["digest"] = to.digest;
  if (text_in(job, "base") == from.base && from.base != to.base) {
    job["base"] = to.base;
    job["formerly"].push_back(from.base);
  }
  // With other options or inputs of the same base, the description stays that of the results.
  if (text_in(job, "digest") == to.digest) job.update(spec);
  write_json(folder / "job.json", job);
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

}  // namespace kinora::core
