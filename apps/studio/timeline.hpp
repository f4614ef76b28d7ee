// The shots of one video with the outcomes of their clips.
#pragma once
#include "apps/studio/query.hpp"

namespace kinora::studio {

// {"film", "fps", "frames", "length_s", "shots": [{"first", "end", "start_s", "end_s", "clips": [{"id",
// "end", "decision"}]}], "curve": [largest cut score in each of at most 600 equal parts]}. A shot is frames
// first to end - 1; a clip belongs to the shot that contains its first frame. Without shots, each
// clip counts as one. `film`: the video's line, null if there is none.
nlohmann::json timeline(const Catalogue&, const EditsOf&, size_t job, const std::string& film,
                        const nlohmann::json& line);

}  // namespace kinora::studio
