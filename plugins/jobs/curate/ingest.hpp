// The source of a curate job's pipeline: emits its inputs as video samples.
//
// A video's sample has field `url`; `json` with its `sha256` and the columns of the user's manifest (`user`,
// and a `caption` by the user, whose text is field `txt`); `ended.json` if an earlier run finished some of
// its clips. An input that cannot be read or is empty, and a copy of an earlier one, end here: stage
// "ingest".
#pragma once
#include <atomic>
#include <optional>
#include <string>
#include <unordered_map>

#include "kinora/sample.hpp"
#include "plugins/jobs/curation/record.hpp"
#include "plugins/jobs/pipeline/pipeline.hpp"

namespace kinora::core {

class Ingest {
 public:
  struct Options {
    bool hash = true;             // hash the bytes of every video
    bool drop_duplicates = true;  // use the first of equal videos; rule ingest.duplicate
  };
  // Borrowed.
  Ingest(const InputRows& inputs, Record& record, const Options& options);

  // The next video that has not ended yet. One call at a time.
  std::optional<Sample> next();

  // The place of the input that next() looks at first.
  size_t at() const { return at_; }

  // [any-thread] Inputs that ended here in this run, minus those of earlier runs that were reopened.
  int64_t ended() const { return ended_; }
  // [any-thread] Those that ended here in this run, by outcome.
  Counts counts() const { return {0, filtered_, failed_}; }

 private:
  bool knows_content(const Input& input);
  bool is_no_file(const Input& input);
  bool is_empty(const Input& input);
  bool is_duplicate(const Input& input);
  void say_lost(const Input& copy, const Input& first) const;
  Sample video_of(const Input& input) const;
  void end(const Input& input, const json& line);
  Input first_with(const std::string& content, const Input& input);

  const InputRows& inputs_;
  Record& record_;
  const Options options_;
  size_t at_ = 0;
  std::unordered_map<std::string, std::string>
      unlisted_;  // SHA-256 and key of videos that are no longer listed
  Database contents_{"the list of contents",
                     Database::Access::scratch};  // place of the first video by its bytes
  std::atomic<int64_t> ended_ = 0, filtered_ = 0, failed_ = 0;
};

}  // namespace kinora::core
