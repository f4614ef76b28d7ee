// Answers that have been paid for: a run that was killed while samples wait behind this stage, or between the
// windows of one, asks for none of them again, and neither does a job that starts over with other options.
//
// A job that has a folder `answers` in its own wants that, and calls it `.answers` when it is done:
//   answers/STAGE/ab/cdef..01/2345..67.json     of the sample's key by its SHA-256, of the request's body by
//   its; the key of
//                                               the server is in neither
//
// A job that starts over has its folder of before beside its own, as .NAME.before or .NAME.unfinished: an
// answer to the same request is taken from there.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client.hpp"

namespace kinora::endpoint {

// [any-thread] Of what one stage asks about one sample.
class KeptAnswers {
 public:
  // out: the folder of the run; where it has no folder `answers` nothing is kept.
  KeptAnswers(std::string_view out, const std::string& stage, std::string_view key);
  // The answer to a request of this body.
  std::optional<Json> find(const std::string& body) const;
  // Returns when it is on the disk. One that cannot be written is a line in the log: the run does not need
  // it.
  void keep(const std::string& body, const Json& answer) const;
  // The sample has failed: it is asked about anew.
  void forget() const;

 private:
  std::filesystem::path folder_;                  // empty: nothing is kept
  std::vector<std::filesystem::path> of_before_;  // the same in the folders that were set aside
};

}  // namespace kinora::endpoint
