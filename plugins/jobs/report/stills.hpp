// Pictures for the report: single video frames, decoded by the components that also made the clips.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/run/one_stage.hpp"

namespace kinora::core::report {

struct StillRequest {
  std::string media;  // path or URI
  int64_t frame = 0;
  int height = 0, width = 0;  // of the picture; the frame is scaled to cover it and cropped
};

struct Still {
  std::string jpeg;  // empty: missing, for `reason`
  std::string reason;
};

using StillSource = std::function<Still(const StillRequest&)>;

// Runs stage/video.read, in its own process, and stage/video.write. Any failure, including a missing plugin or a decoder
// crash, yields a still without a picture.
class Stills {
 public:
  explicit Stills(Registry& registry) : registry_(registry), readers_(std::make_shared<Readers>()) {}
  Still operator()(const StillRequest& request);

 private:
  using Readers = std::map<std::pair<int, int>, std::unique_ptr<OneStage>>;
  std::string jpeg_of(const StillRequest& request);
  Registry& registry_;
  std::shared_ptr<Readers> readers_;  // by height and width; shared by copies of this object
  // Frame n of a video costs decoding n frames, so the total for all stills is bounded.
  int64_t frames_left_ = 60'000;
};

}  // namespace kinora::core::report
