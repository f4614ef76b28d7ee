// Pictures for the report: single frames of films, decoded by the components that also made the clips.
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
  int height = 0, width = 0;  // of the picture; the frame is scaled to cover it and cut
};

struct Still {
  std::string jpeg;  // empty: there is none, because of
  std::string reason;
};

using StillSource = std::function<Still(const StillRequest&)>;

// Runs stage/video.read, in a process of its own, and stage/video.write. Whatever fails, a missing plugin or a decoder that
// crashes included, is a still without a picture.
class Stills {
 public:
  explicit Stills(Registry& registry) : registry_(registry), readers_(std::make_shared<Readers>()) {}
  Still operator()(const StillRequest& request);

 private:
  using Readers = std::map<std::pair<int, int>, std::unique_ptr<OneStage>>;
  std::string jpeg_of(const StillRequest& request);
  Registry& registry_;
  std::shared_ptr<Readers> readers_;  // by height and width; shared by copies of this
  // Frame n of a film costs decoding n frames, so what all stills together may decode is bounded.
  int64_t frames_left_ = 60'000;
};

}  // namespace kinora::core::report
