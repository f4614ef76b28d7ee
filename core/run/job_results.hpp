// Reads and renames the results in the folder of a job: job.json describes the job, summary.json how it went.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

// Whether summary.json says that the job of this identity is done and all its results still exist; otherwise
// `why` receives the reason.
bool finished(const std::filesystem::path& folder, const std::string& digest, std::string* why = nullptr);

// Whether a job, of whatever identity, has finished there.
bool is_done(const std::filesystem::path& folder);
// Whether a job has made anything there that is worth resuming.
bool has_begun(const std::filesystem::path& folder);

// Number of failed inputs and clips of a finished curate job.
int64_t failures_in(const std::filesystem::path& folder);
// The digest of everything that a finished job of this digest keeps (summary.json's kept_sha256); empty if it
// has none, or is not finished.
std::string kept_by(const std::filesystem::path& folder, const std::string& digest);

// Why a job of another run cannot read the results in this folder; empty: it can. kinds: of jobs, "curate",
// that it reads.
std::string problem_of_results(const std::filesystem::path& folder, const std::vector<std::string>& kinds);
// The identity of a finished job's results: what it keeps, else the job's digest.
std::string results_digest(const std::filesystem::path& folder);

// Writes a file such as job.json. Throws kinora::Error.
void write_json(const std::filesystem::path& file, const nlohmann::json& value);
// Writes summary.json. Throws kinora::Error.
void write_summary(const std::filesystem::path& folder, const nlohmann::json& summary);

// Gives results the names of today: where job.json and summary.json have this digest and base, the new ones,
// and to job.json its description of today. The list "formerly" of job.json keeps the old base, under which a
// job may have recorded work.
struct ResultsNames {
  std::string digest, base;
};
void rename_results(const std::filesystem::path& folder, const nlohmann::json& spec, const ResultsNames& from,
                    const ResultsNames& to);
// Whether an entry of a job's folder records how the job went rather than being a result.
bool is_record(std::string_view name);

// Names of the results in the folder, with the size of each file in bytes and the number of entries of each
// folder.
nlohmann::json results_in(const std::filesystem::path& folder);

}  // namespace kinora::core
