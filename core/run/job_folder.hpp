// A job's folder from run to run: whose it is, whether its job is finished, what a killed process left there.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/status.hpp"

namespace kinora::core {

// Whether summary.json says that the job of this identity is done and every result that it counted is still
// there; `why` gets what is not.
bool finished(const std::filesystem::path& folder, const std::string& digest, std::string* why = nullptr);

// Whether a job, of whatever identity, has finished there.
bool is_done(const std::filesystem::path& folder);

// What a finished curate job counted as failed, of inputs and clips.
int64_t failures_in(const std::filesystem::path& folder);
// Where what the job of this base has done is: its folder, or where that was set aside.
std::filesystem::path results_of(const std::filesystem::path& folder, const std::string& base);
// How often failures of the job of this base were tried again: what comes of it may be another each time.
int64_t retries(const std::filesystem::path& folder, const std::string& base);
// One more time, if the folder is of that base.
void count_retry(const std::filesystem::path& folder, const std::string& base);
// How often such a retry has changed what the job of this base keeps: what reads its results depends on that, and
// not on the retries.
int64_t revision(const std::filesystem::path& folder, const std::string& base);
// The job of this base has kept this, a digest; before its summary says that it is done.
void note_kept(const std::filesystem::path& folder, const std::string& base, const std::string& kept);

// What a job of this identity finds, before anything is done.
struct Beginning {
  std::filesystem::path from;  // the folder whose results it goes on with: its own, or one set aside; empty: none
  std::string said;            // in words, if there is anything to say
  bool warns = false;          // options were changed, and the results of before are not wanted any more
};
Beginning beginning(const std::filesystem::path& folder, const std::string& name, const nlohmann::json& spec,
                    const std::string& digest, const std::string& base);

// Makes the folder ready for a job: results of a job of another identity, finished or not, are set aside, with a line in
// the log, until drop_before(), and what this job had left before they were there comes back; what the same job left
// stays, but for temporaries of dead processes. Of finished and of unfinished results the last ones are kept.
// Throws Error if the folder holds anything and is no job's: nobody's files are removed. `spec`, with the run's
// "seed", becomes job.json. base: see job_base(); where it is that of what is there, all stays. What the user wrote there
// (edits.jsonl) stays in any case.
void prepare_folder(const std::filesystem::path& folder, const std::string& name, const nlohmann::json& spec,
                    const std::string& digest, const std::string& base = "");

// Whether take_back() would.
bool may_take_back(const std::filesystem::path& folder, const std::string& digest);
// Whether results of this identity had been set aside; they are then back in their place, and what replaced
// them is gone.
bool take_back(const std::filesystem::path& folder, const std::string& digest);
// The job failed: what was set aside is back if the job has made nothing that is worth going on with. Whether
// it is.
bool take_back_after_failure(const std::filesystem::path& folder);
// Removes what a job left that has no result and no checkpoint: its description, its empty folders, what it
// said of its failure.
void drop_if_empty(const std::filesystem::path& folder);
// The folders, there or not, of what was set aside for this one.
std::vector<std::filesystem::path> lying_aside(const std::filesystem::path& folder);
// The job is done: nothing set aside is needed.
void drop_before(const std::filesystem::path& folder);

// Whether an entry of a job's folder says how the job went rather than being a result of it.
bool is_record(std::string_view name);

// Names of the results in the folder, with bytes of files and numbers of entries of folders.
nlohmann::json results_in(const std::filesystem::path& folder);

// What rank 0 leaves, beside the folder, for the ranks that wait for it.
void leave_failure(const std::filesystem::path& folder, const std::string& digest,
                   const std::string& message);
// The message, if the job of this identity failed since `since`.
std::optional<std::string> failure_left(const std::filesystem::path& folder, const std::string& digest,
                                        std::filesystem::file_time_type since);

}  // namespace kinora::core
