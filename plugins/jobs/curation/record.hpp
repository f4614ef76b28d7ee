// What became of every input of a curate job and of all that was made of it, kept so that a run that was
// killed goes on.
//
// Every end is a line of journal.jsonl as soon as it is known; that of a kept sample comes after its files.
// What a later run can rely on, for each input that is still the same (Input::identity) under the same stages
// and options (`base`):
//
//   the input's own end is there      all ends of what was made of it are: it is not read again
//   it is not, but ends of its clips  it is read again, and its stages are told which of them to leave out
//   (field
//                                     ended.json); failed ones are tried again
//   it could not be looked at         the same, once it can be
//   it is to be tried again           the same for every input of which something failed (Options::retries)
//
// A sample that names no film (see ends.hpp) cannot be attributed: a run that had such ones starts over.
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
    std::string base;      // identity of all that decides results but the inputs
    bool per_clip = true;  // false: a clip may have several ends (branches), so a film is done whole or again
    int64_t retries =
        0;  // how often failures were to be tried again: if more than in the journal, they are void
    bool looks = false;  // what a run would go on with: nothing is written and nothing removed
  };
  // Goes on with what the job's folder has; files of data/ that belong to no known end are removed. `inputs`
  // is borrowed. Throws kinora::Error, and removes nothing, if an input is a folder that cannot be listed now and films
  // of before lie below it.
  Record(const std::filesystem::path& folder, const std::vector<Input>& inputs, const Options& options);

  size_t ended_before() const { return ended_before_; }  // inputs that earlier runs ended
  size_t clips_before() const { return clips_before_; }  // ends of what they and others had made
  size_t retried() const { return retried_; }            // failures that are void since they are tried again
  // What earlier runs knew and is void now.
  struct Void {
    int64_t films = 0, clips = 0;  // clips: kept ones, whose files go
  };
  Void gone() const { return gone_; }        // films that are no inputs any more
  Void changed() const { return changed_; }  // that are others now, or whose stored files are not what they were

  // Before anything else is said of an input in this run.
  void begin(const Input& input);
  bool has_ended(const Input& input) const;
  // The keys of samples made of it that have ended: stages leave them out.
  std::vector<std::string> ended_of(const Input& input) const;
  // SHA-256 of its bytes; empty: not known yet.
  std::string content(const Input& input) const;
  void set_content(const Input& input, const std::string& sha256);
  // The key of the input that it was found to be a copy of; empty if of none.
  std::string duplicate_of(const Input& input) const;
  // All that is known of its ends is void, and their files are gone.
  void forget(const Input& input);

  // Whether this end is known from an earlier run: a stage made the sample again all the same.
  bool knows(const std::string& key, bool made) const;
  // Before a kept sample is stored. Throws kinora::Error if another of this key was kept.
  void claim(const std::string& key);
  // Why this end of a made sample comes too late, and the sample has failed; empty: it does not. Its film has ended before it,
  // and what of that a run which breaks off would lose nobody makes again.
  std::string too_late(const json& line) const;
  // line: of items.jsonl, see item_line.hpp; made: as kinora_outcome.made; files: names below data/ with their sizes.
  // Throws kinora::Error if it is too late and has not failed.
  void end(const json& line, int32_t made, const json& files);

  // Every end, each input followed by what was made of it by key; last what belongs to no input. Throws
  // kinora::Error if an input has none.
  void each(const std::function<void(const json& line, bool made, const json& files)>& f);
  // Puts the journal into that order, so that equal results have equal journals. Last of all.
  void settle();

 private:
  struct Replay;
  void replay(const std::filesystem::path& file);
  void take(const json& entry, Journal::Place place);
  void start_over(const std::string& why);
  void note(const json& entry, bool durable);
  void require_listed(const std::vector<std::string>& gone) const;
  void keep_current();
  // Of a film that cannot be seen now, the one that is known: what is done of it stays.
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
  std::unordered_set<std::string> unseen_keys_;  // of inputs that cannot be looked at now
  std::unique_ptr<Journal> journal_;
  std::string header_base_;  // of the journal that is there
  int64_t retries_ = 0;      // that the journal knows of
  size_t ended_before_ = 0, clips_before_ = 0, retried_ = 0;
  Void gone_, changed_;
};

}  // namespace kinora::core
