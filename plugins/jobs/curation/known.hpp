// What a curate job's journal knows about its videos, for the next run's inputs: their keys, and which are done.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace kinora::core {

struct KnownFilm {
  std::string key, url, identity;  // as in Input
  bool done = false;               // it has ended, other than for being unavailable
  size_t made = 0;                 // outcomes of samples made from it

  // Whether dropping it loses anything: an input that never was a file and produced nothing is only a key.
  bool is_worth_keeping() const { return made > 0 || (done && !identity.ends_with("-0-0")); }
};

// The videos in the input order of the last completed run, later ones in order of arrival. Empty if the folder has no
// journal of a job with this base (job_base()), or one that a run would discard. Writes nothing. Throws kinora::Error.
std::vector<KnownFilm> known_films(const std::filesystem::path& folder, const std::string& base);

}  // namespace kinora::core
