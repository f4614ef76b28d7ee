// The fields of a request for a video: from JSON or from a form, the same either way.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/serve/multipart.hpp"
#include "apps/serve/videos.hpp"

namespace kinora::serve {

struct VideoFields {
  nlohmann::json fields;
  std::vector<GivenFile> files;
};

// prompt, model, size ("WIDTHxHEIGHT"), seconds, num_frames, fps, steps, seed, guidance_scale, negative_prompt, shots;
// of a form also input_reference, a picture or a video. Throws ApiError that names the parameter.
VideoFields fields_of(const nlohmann::json& body);
VideoFields fields_of(const std::vector<FormPart>& form);

}  // namespace kinora::serve
