// What a curate job's journal says of its films, for the next run's inputs: their names, and those that are done.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace kinora::core {

struct KnownFilm {
  std::string key, url, identity;  // Input's
  bool done = false;               // it has ended, and not since it could not be looked at
  size_t made = 0;                 // ends of what was made of it

  // Whether anything is lost with it: what never was a file and gave nothing is a name only.
  bool is_worth_keeping() const { return made > 0 || (done && !identity.ends_with("-0-0")); }
};

// In the order of the inputs of the last run that came to its end, then as they came. Empty if the folder has no journal of
// a job of this base (job_base()), or one that a run would start over. Nothing is written. Throws kinora::Error.
std::vector<KnownFilm> known_films(const std::filesystem::path& folder, const std::string& base);

}  // namespace kinora::core
