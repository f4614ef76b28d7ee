// Decodes the media of samples with the stages of the video plugin, in processes of their own.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/plugin/registry.hpp"
#include "host/stages/one_stage.hpp"

namespace kinora::data {

// Whether a field's name has the ending of a video or picture: "mp4", "preview.webp".
bool is_medium(std::string_view field);
// Whether stages, and so trainings, decode the field: its name is such an ending, as "mp4" and "jpg" are.
bool is_decoded(std::string_view field);

// Tells whether media can be decoded. The constructor throws Error if the video plugin is missing, so that no
// sample is blamed for it. [owner-thread]
class MediaDecoder {
 public:
  explicit MediaDecoder(core::Registry& registry);
  // Decodes all frames. Returns why that is impossible; "" if it is not.
  std::string problem(const std::string& key, const std::string& field, std::vector<uint8_t> bytes);

 private:
  core::OneStage probe_;
};

// The picture of a sample: some frames of a video next to each other, or the image.
struct Picture {
  std::string jpeg;           // empty: there is none
  std::string reason;         // why
  int width = 0, height = 0;  // of the medium
  double seconds = 0;         // of a video
};

// Makes pictures of media, with the same stages. [owner-thread]
class PictureMaker {
 public:
  explicit PictureMaker(core::Registry& registry);
  Picture operator()(const std::string& key, const std::string& field, std::vector<uint8_t> bytes);

 private:
  Picture made(Sample sample);
  core::Registry& registry_;
  core::OneStage probe_, write_;
  std::map<int64_t, std::unique_ptr<core::OneStage>> readers_;  // by stride
};

}  // namespace kinora::data
