// The record of a curate job: record.db, a SQLite file in its folder, with which an interrupted run resumes
// and a later one repeats only what changed. docs/formats/record.md describes its tables and what a run does
// with what it finds there.
//
// Invariant: an outcome is added after the files of its sample are stored, and that of an input after those
// of everything made of it, so an input with an outcome is done.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>

#include "kinora/abi/engine.h"
#include "plugins/jobs/curation/database.hpp"
#include "plugins/jobs/curation/input_rows.hpp"

namespace kinora::core {

// The inputs and samples that a sample was made of, as the engine reports them (abi/engine.h).
struct Lineage {
  int32_t made = 0;  // 0: an input
  std::vector<std::string> inputs, parents;

  static Lineage of(const kinora_outcome& outcome);
};

// [any-thread]
class Record {
 public:
  struct Options {
    std::string base;                     // identity of everything but the inputs that affects results
    std::vector<std::string> formerly{};  // bases that the same work had before
    bool per_clip = true;                 // false: a video is finished or redone as a whole
    int64_t retries = 0;                  // how often the user has asked to retry failures, all runs together
    std::vector<std::string> prune{};     // patterns and folders: unlisted videos whose results are removed
    bool looks = false;  // only finds what a run would begin with: writes and removes nothing
    bool named = false;  // the inputs have their keys, as those of a part
  };
  // Compares the inputs with the record, gives them their keys, and removes what is void. Throws
  // kinora::Error.
  Record(const std::filesystem::path& folder, InputRows& inputs, const Options& options);
  ~Record();

  // Videos of one kind at the beginning of the run.
  struct Count {
    int64_t videos = 0, clips = 0;  // clips: kept samples made of them
    std::string first;              // url of the first of these videos
  };
  const Count& changed() const { return changed_; }    // their results are void
  const Count& pruned() const { return pruned_; }      // their results are void
  const Count& unlisted() const { return unlisted_; }  // their results stay
  // Unseen: listed, but without size and time of the file when this run began, as behind a missing disk
  // (Input::is_unseen). Their results stay.
  const Count& unseen() const { return unseen_; }
  int64_t inputs() const { return inputs_; }  // unlisted ones included
  int64_t ended_before() const { return ended_before_; }
  int64_t clips_before() const { return clips_before_; }  // outcomes of made samples
  // Inputs (made = false) or made samples with an outcome now, by their end: "kept", "filtered", "failed".
  std::map<std::string, int64_t> ends(bool made) const;
  int64_t retried() const { return retried_; }  // failures that are void because they are retried

  bool has_ended(const Input& input) const;
  // The keys of ended samples made of the input: stages skip them.
  std::vector<std::string> ended_of(const Input& input) const;
  // SHA-256 of its bytes; empty: unknown.
  std::string content(const Input& input) const;
  void set_content(const Input& input, const std::string& sha256);
  // The key of the input that it is a copy of; empty: none.
  std::string duplicate_of(const Input& input) const;
  // The keys of unlisted videos by the SHA-256 of their bytes.
  std::unordered_map<std::string, std::string> unlisted_contents() const;
  // Voids all outcomes of the input and of everything made of it, and removes their files.
  void forget(const Input& input);

  // Whether an earlier run recorded this outcome of a made sample.
  bool knows(const std::string& key, bool made) const;
  // Whether files of a sample with this key are stored.
  bool has_stored(const std::string& key) const;
  // line: of items.jsonl, see items.hpp; files: names below data/ with their sizes.
  void end(const json& line, const Lineage& lineage, const json& files);

  // Takes over what another process has recorded and stored in a part: a folder like this one's, for some of the
  // inputs, with the same base and keys. Inputs that have results here, that the part has not ended, or whose samples
  // would replace others, stay as they are. Files become links, so the part stays whole. Returns the number of inputs
  // that it took. Throws kinora::Error.
  int64_t adopt(const std::filesystem::path& part, const std::vector<std::string>& keys);

  // Calls `f` for every outcome: each input followed by the samples made of it, by key; last those of several
  // inputs or none. Throws kinora::Error if a listed input has no outcome.
  void each(const std::function<void(const json& line, bool made, const json& files)>& f);

 private:
  struct RecordedVideo;
  void begin(const std::filesystem::path& folder);
  void start_over(const std::string& why);
  void find_inputs(InputRows& inputs);
  void each_known(const std::function<void(const RecordedVideo&)>& f);
  bool stays_unlisted(const RecordedVideo& video) const;
  static bool is_same(const RecordedVideo& video, const Input& input);
  void renew(const RecordedVideo& video, const Input& input);
  void match(InputRows& inputs);
  void void_stale(const InputRows& inputs);
  void place(InputRows& inputs);
  void reopen_unfinished();
  void retry_failures();
  void reopen(int64_t input);
  std::vector<std::string> void_results(int64_t input);
  bool files_are_there(int64_t input);
  Count count_of(const RecordedVideo& known);
  void remove_strangers();
  bool can_adopt(Database& part, const std::filesystem::path& data, int64_t theirs, const std::string& key);
  void copy_outcomes(Database& part, const std::filesystem::path& data, int64_t theirs, int64_t ours);
  void count_before();
  int64_t id_of(const Input& input) const;
  void check_all_ended();

  mutable std::mutex mutex_;
  const std::filesystem::path data_;
  const Options options_;
  mutable Database db_;
  int64_t inputs_ = 0, ended_before_ = 0, clips_before_ = 0, retried_ = 0;
  int64_t last_before_ = 0;  // id of the last outcome of earlier runs
  Count changed_, pruned_, unlisted_, unseen_;
};

// The outcomes of a job that is running or was interrupted: id and line of each. Throws kinora::Error.
void read_record(const std::filesystem::path& folder,
                 const std::function<void(int64_t id, const std::string& line)>& f);
// One of these lines; empty: there is none.
std::string record_line(const std::filesystem::path& folder, int64_t id);
// Removes the record, so that the job begins anew.
void remove_record(const std::filesystem::path& folder);

constexpr const char* kRecordFile = "record.db";

}  // namespace kinora::core
