// The field json of a sample, and what the stages here agree on about it.
#pragma once
#include <string>
#include <vector>

#include "client.hpp"
#include "kinora/sample.hpp"
#include "timeline.hpp"

namespace kinora::endpoint {

// An empty object if there is none. Throws Error(KINORA_DATA) if the field is no JSON object.
Json facts_of(const Sample& sample);

// Whether the caption is the user's own: its facts say so, or nobody says who wrote it.
bool captioned_by_user(const Sample& sample, const Json& facts);

// When the sampled frames are, by the facts frames_at, fps and frames. Without frames_at each of the `count`
// frames stands for itself. Throws Error(KINORA_DATA) if frames_at is not one rising number a frame.
Timeline timeline_of(const Json& facts, int64_t count);

// A member of `facts` as an object, made one if it is none.
Json& member(Json& facts, const char* name);

// Float32 [D] as a NumPy file, version 1.0 of its format.
std::string npy(const std::vector<float>& values);

}  // namespace kinora::endpoint
