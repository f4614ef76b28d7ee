// A job's folder across runs: which job it belongs to, and the results of others that are set aside for it and come
// back.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/io/atomic_file.hpp"
#include "core/run/identity.hpp"

namespace kinora::core {

// Results of the job from before.
struct EarlierResults {
  std::filesystem::path folder;       // the job's own, or the one set aside; the own if there are none
  int64_t retries = 0;                // how often it has retried its failures; each may change its results
  std::vector<std::string> formerly;  // bases that they had before (JobIdentities::adopt_results)
};
// The results of the job of this base.
EarlierResults earlier_results(const std::filesystem::path& folder, const std::string& base);
// Adds one to the retries, if the folder is of that base.
void count_retry(const std::filesystem::path& folder, const std::string& base);

// How a job of this identity begins.
struct Beginning {
  std::filesystem::path from;  // the folder whose results it resumes: its own, or one set aside; empty: none
  std::string said;            // message for the log; empty: none
  bool warns = false;          // options were changed, so the earlier results, which took long, do not apply
};
// is_quick: the job decodes and computes little, so that running it again is nothing to warn of.
Beginning beginning(const std::filesystem::path& folder, const std::string& name, const JobIdentity&,
                    bool is_quick = false);
// Logs what it says.
void log_beginning(const Beginning&);

// Why the results in the folder must not be replaced by those of a job with this identity unasked: they are another
// run file's or of another input, or people's edits are about them. Empty: nothing would be lost, since the job
// continues results there, or only its options have changed.
std::string reason_to_keep(const std::filesystem::path& folder, const JobIdentity&);

// Prepares the folder for a job. Results of a job of another identity, finished or not, are set aside with a
// line in the log until drop_before(); earlier results of this job come back. Results of the same job stay,
// except temporary files of dead processes. Only the last finished and the last unfinished results are kept
// aside. Throws Error if the folder has files but no job made it: files of unknown origin are never removed.
// The identity's description becomes job.json. If the folder has the same base, everything stays, unless a
// number in its "grows_by" has become smaller. from_scratch: sets this job's own results aside too. The
// user's edits (edits.jsonl, views.jsonl) stay as they are in the folder; only a folder that no job has
// prepared takes them from results set aside, with a line in the log.
void prepare_folder(const std::filesystem::path& folder, const std::string& name, const JobIdentity&,
                    bool is_quick = false, bool from_scratch = false);

// For a job that replaces its results at once (JobType::replaces_at_once): a folder next to this one, with
// its job.json, in which the job works; commit(true) replaces this one. Nothing: no finished results are
// here, and it must prepare_folder().
std::optional<AtomicFolder> prepare_beside(const std::filesystem::path& folder, const std::string& name,
                                           const JobIdentity&);

// Whether take_back() would return true.
bool may_take_back(const std::filesystem::path& folder, const std::string& digest);
// If results of this identity were set aside, moves them back, removes what replaced them and returns true.
bool take_back(const std::filesystem::path& folder, const std::string& digest);
// After a failure: moves the results set aside back, unless the failed job has made anything worth resuming.
// Returns whether it did.
bool take_back_after_failure(const std::filesystem::path& folder);
// Cleans up after a job without results and checkpoints: removes its description, empty folders and failure
// message.
void drop_if_empty(const std::filesystem::path& folder);
// The folders, existing or not, for results that were set aside from this one.
std::vector<std::filesystem::path> lying_aside(const std::filesystem::path& folder);
// Removes results set aside, once the job is done.
void drop_before(const std::filesystem::path& folder);

// Adds the time of an interrupted run to the folder's job.json.
void add_spent(const std::filesystem::path& folder, double seconds);
// That time, of all interrupted runs that the job continues.
double spent_before(const std::filesystem::path& folder);

// Rank 0 writes its failure next to the folder, for the ranks that wait for it.
void leave_failure(const std::filesystem::path& folder, const std::string& digest,
                   const std::string& message);
// That message, if the job of this identity has failed after `since`.
std::optional<std::string> failure_left(const std::filesystem::path& folder, const std::string& digest,
                                        std::filesystem::file_time_type since);
// Removes that message.
void drop_failure(const std::filesystem::path& folder);

}  // namespace kinora::core
