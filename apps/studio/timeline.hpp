// The shots of one film with what became of each.
#pragma once
#include "apps/studio/query.hpp"

namespace kinora::studio {

// {"film", "fps", "frames", "length_s", "shots": [{"first", "end", "start_s", "end_s", "clips": [{"id",
// "end", "decision"}]}], "curve": [largest cut score in each of at most 600 equal parts]}. A shot is frames
// first to end - 1; a clip belongs to the shot that its first frame is in. Without shots of the film, each
// clip stands for one. `film`: its line, null if there is none.
nlohmann::json timeline(const Catalogue&, const EditsOf&, size_t job, const std::string& film,
                        const nlohmann::json& line);

}  // namespace kinora::studio
