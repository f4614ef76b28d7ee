// Reads facts that this plugin's stages share from a sample's field json.
#pragma once
#include <string>
#include <vector>

#include "client.hpp"
#include "kinora/curation.hpp"
#include "timeline.hpp"

namespace kinora::endpoint {

// Whether the caption is the user's own: its facts say so, or name no author.
bool captioned_by_user(const Sample& sample, const Json& facts);

// Returns the times of the sampled frames from the facts frames_at, fps and frames. Without frames_at the `count`
// frames are the whole video. Throws Error(KINORA_DATA) if frames_at is not one rising number per frame.
Timeline timeline_of(const Json& facts, int64_t count);

}  // namespace kinora::endpoint
