// The field json of a sample, and what the stages here agree on about it.
#pragma once
#include <string>
#include <vector>

#include "client.hpp"
#include "kinora/curation.hpp"
#include "timeline.hpp"

namespace kinora::endpoint {

// Whether the caption is the user's own: its facts say so, or nobody says who wrote it.
bool captioned_by_user(const Sample& sample, const Json& facts);

// When the sampled frames are, by the facts frames_at, fps and frames. Without frames_at each of the `count`
// frames stands for itself. Throws Error(KINORA_DATA) if frames_at is not one rising number a frame.
Timeline timeline_of(const Json& facts, int64_t count);

}  // namespace kinora::endpoint
