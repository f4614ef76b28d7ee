// The source of a curate job's pipeline: its inputs as film samples.
//
// A film's sample has field `url`; `json` with its `sha256` and what the user's manifest says of it (`user`,
// and a `caption` by the user, whose text is field `txt`); `ended.json` if an earlier run has ended some of
// its clips. An input that cannot be read or is empty, and a copy of an earlier one, end here: stage "ingest".
#pragma once
#include <atomic>
#include <optional>

#include "plugins/jobs/curation/record.hpp"
#include "kinora/sample.hpp"

namespace kinora::core {

class Ingest {
 public:
  struct Options {
    bool hash = true;             // the bytes of every film are hashed
    bool drop_duplicates = true;  // of equal films the first is used: rule ingest.duplicate
  };
  // Borrowed.
  Ingest(const std::vector<Input>& inputs, Record& record, const Options& options)
      : inputs_(inputs), record_(record), options_(options) {}

  // The next film that has not ended yet. One call at a time.
  std::optional<Sample> next();

  // [any-thread] Inputs that ended here in this run, less those of earlier runs that are open again.
  int64_t ended() const { return ended_; }

 private:
  bool knows_content(const Input& input);
  bool is_no_file(const Input& input);
  bool is_empty(const Input& input);
  bool is_duplicate(const Input& input);
  void say_lost(const Input& copy, const Input& first) const;
  Sample film_of(const Input& input) const;
  void end(const Input& input, const json& line);
  const std::vector<Input>& inputs_;
  Record& record_;
  const Options options_;
  size_t at_ = 0;
  std::unordered_map<std::string, const Input*> first_;  // the first film with these bytes
  std::atomic<int64_t> ended_ = 0;
};

}  // namespace kinora::core
