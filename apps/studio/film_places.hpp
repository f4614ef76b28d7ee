// Films of one name in several folders.
#pragma once
#include <string>
#include <unordered_map>

#include "apps/studio/catalogue.hpp"

namespace kinora::studio {

// The ends of the addresses of films of a job whose files have one name but for the ending, each with so many
// folders as tell it from the others: {"clips/tape": "monday/tape.mp4", "clips/tape-2": "tuesday/tape.mp4"}.
// By id.
std::unordered_map<std::string, std::string> film_places(const Catalogue&);

}  // namespace kinora::studio
