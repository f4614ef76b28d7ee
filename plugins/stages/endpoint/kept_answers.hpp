// Stores answers that have been paid for. A run that was killed while samples wait after this stage, or between the
// windows of a sample, does not request them again; nor does a job that starts over with other options.
//
// A job enables this with a folder `answers` in its own folder, which it renames to `.answers` when it is done:
//   answers/STAGE/ab/cdef..01/2345..67.json     SHA-256 of the sample's key, then of the request's body; the
//                                               server's key is in neither
//
// A job that starts over has its previous folder next to its own, as .NAME.before or .NAME.unfinished; answers to
// the same requests are taken from there.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client.hpp"

namespace kinora::endpoint {

// [any-thread] Kept answers of one stage for one sample.
class KeptAnswers {
 public:
  // out: the job's folder; without a folder `answers` in it nothing is kept.
  KeptAnswers(std::string_view out, const std::string& stage, std::string_view key);
  // Returns the answer to a request with this body.
  std::optional<Json> find(const std::string& body) const;
  // Returns when the answer is on disk. A failed write is only logged, because the run does not need the
  // file.
  void keep(const std::string& body, const Json& answer) const;
  // Removes the answers of a failed sample, so that a rerun asks again.
  void forget() const;

 private:
  std::filesystem::path folder_;                  // empty: nothing is kept
  std::vector<std::filesystem::path> of_before_;  // the corresponding folders of previous runs
};

}  // namespace kinora::endpoint
