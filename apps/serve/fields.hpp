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
  std::string video{};  // id of a completed one, in place of a file
};

// prompt, model, size ("WIDTHxHEIGHT"), seconds, num_frames, fps, steps, seed, guidance_scale, negative_prompt,
// strength, shots, lora; of a form also a file of this name, a picture or a video, which is the input_reference; in
// place of a file called video also {"id": ...}. Throws ApiError that names the parameter.
VideoFields fields_of(const nlohmann::json& body, const std::string& file = "input_reference");
VideoFields fields_of(const std::vector<FormPart>& form, const std::string& file = "input_reference");

}  // namespace kinora::serve
