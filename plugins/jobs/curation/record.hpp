// Records the outcome of every input of a curate job and of every sample made from it, so that an interrupted
// run can resume.
//
// Each outcome becomes a line of journal.jsonl as soon as it is known; that of a kept sample is written after
// its files. What a later run can rely on, for each input that is still the same (Input::identity) under the
// same stages and options (`base`):
//
//   the input's own outcome exists    all outcomes of samples made from it exist: it is not read again
//   only outcomes of its clips exist  it is read again, and its stages receive the clips to skip (field
//                                     ended.json); failed ones are retried
//   it was unavailable                the same, once it is available
//   it is to be retried               the same for every input with a failure (Options::retries)
//
// A sample that names no video (see ends.hpp) cannot be attributed: a run with such samples reruns from
// scratch.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_set>

#include "plugins/jobs/curation/ends.hpp"
#include "plugins/jobs/curation/inputs.hpp"

namespace kinora::core {

// [any-thread]
class Record {
 public:
  struct Options {
    std::string base;      // identity of everything but the inputs that affects results
    bool per_clip = true;  // false: a clip may have several outcomes (branches), so a video is finished or redone as a whole
    int64_t retries =
        0;  // number of requested retries of failures; if more than in the journal, failures are void
    bool looks = false;  // only inspect what a run would resume from: writes and removes nothing
  };
  // Resumes from the contents of the job's folder; removes files of data/ that belong to no known outcome. `inputs` is
  // borrowed. Throws kinora::Error, and removes nothing, if an input is a folder that cannot be listed now and earlier
  // videos are below it.
  Record(const std::filesystem::path& folder, const std::vector<Input>& inputs, const Options& options);

  size_t ended_before() const { return ended_before_; }  // inputs that earlier runs ended
  size_t clips_before() const { return clips_before_; }  // outcomes of samples made from these and other inputs
  size_t retried() const { return retried_; }            // failures that are void because they are retried
  // Results of earlier runs that are void now.
  struct Void {
    int64_t films = 0, clips = 0;  // clips: kept ones, whose files are removed
  };
  Void gone() const { return gone_; }        // videos that are no longer inputs
  Void changed() const { return changed_; }  // videos that changed, or whose stored files were modified

  // Must be called before any other function about an input in this run.
  void begin(const Input& input);
  bool has_ended(const Input& input) const;
  // The keys of ended samples made from the input: stages skip them.
  std::vector<std::string> ended_of(const Input& input) const;
  // SHA-256 of its bytes; empty: unknown.
  std::string content(const Input& input) const;
  void set_content(const Input& input, const std::string& sha256);
  // The key of the input that it is a copy of; empty: none.
  std::string duplicate_of(const Input& input) const;
  // Voids all known outcomes of the input and removes their files.
  void forget(const Input& input);

  // Whether this outcome is known from an earlier run although a stage made the sample again.
  bool knows(const std::string& key, bool made) const;
  // Claims the key of a kept sample before it is stored. Throws kinora::Error if another sample with this key
  // was kept.
  void claim(const std::string& key);
  // Why this outcome of a made sample comes too late, so that the sample has failed; empty: it does not. Its video ended
  // before it, and if the run is interrupted, no later run would make the sample again.
  std::string too_late(const json& line) const;
  // line: of items.jsonl, see item_line.hpp; made: as kinora_outcome.made; files: names below data/ with their sizes.
  // Throws kinora::Error if it is too late and has not failed.
  void end(const json& line, int32_t made, const json& files);

  // Calls `f` for every outcome: each input followed by the samples made from it, by key; last the samples
  // that belong to no input. Throws kinora::Error if an input has no outcome.
  void each(const std::function<void(const json& line, bool made, const json& files)>& f);
  // Rewrites the journal in that order, so that equal results have equal journals. Must be the last call.
  void settle();

 private:
  struct Replay;
  void replay(const std::filesystem::path& file);
  void take(const json& entry, Journal::Place place);
  void start_over(const std::string& why);
  void note(const json& entry, bool durable);
  void require_listed(const std::vector<std::string>& gone) const;
  void keep_current();
  // The recorded identity of an unavailable video, so that its results are kept.
  std::string identity_of(const Input& input) const;
  bool files_are_there(const Ends::Film& film) const;
  void remove_files(const Ends::Film& film) const;
  void remove_strangers() const;
  void check_all_ended() const;
  std::vector<json> ordered(std::vector<End> ends, bool made) const;
  json input_entry(const Input& input, const Ends::Film& film) const;
  const Ends::Film& film(const Input& input) const;

  mutable std::mutex mutex_;
  const std::filesystem::path data_;
  const std::vector<Input>& inputs_;
  const Options options_;
  Ends ends_;
  std::unordered_set<std::string> kept_;
  std::unordered_set<std::string> unseen_keys_;  // keys of unavailable inputs
  std::unique_ptr<Journal> journal_;
  std::string header_base_;  // of the existing journal
  int64_t retries_ = 0;      // number of retries in the journal
  size_t ended_before_ = 0, clips_before_ = 0, retried_ = 0;
  Void gone_, changed_;
};

}  // namespace kinora::core
