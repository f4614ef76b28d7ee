// Tells videos with equal names in several folders apart.
#pragma once
#include <string>
#include <unordered_map>

#include "apps/studio/catalogue.hpp"

namespace kinora::studio {

// Ends of the addresses of a job's videos whose file names are equal except for the ending, each with as many
// folders as are needed to tell them apart: {"clips/tape": "monday/tape.mp4", "clips/tape-2": "tuesday/tape.mp4"}.
// Keyed by id.
std::unordered_map<std::string, std::string> film_places(const Catalogue&);

}  // namespace kinora::studio
