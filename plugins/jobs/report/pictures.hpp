// The pictures and videos of the page: files of the jobs, and single frames of source videos.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "host/stages/one_stage.hpp"
#include "plugins/jobs/report/record.hpp"

namespace kinora::core::report {

// Embeds files in the page. Each is checked to be of the type that its name says, and their total size is
// bounded, so that the page of a large run still opens.
//
// Each call returns {"uri"}, with {"width", "height"} of a PNG, or the {"reason"} why there is none.
class Media {
 public:
  json png(const std::filesystem::path& file) { return embed(file, "image/png"); }
  json mp4(const std::filesystem::path& file) { return embed(file, "video/mp4"); }
  json jpeg(std::string_view bytes) { return checked(bytes, "image/jpeg", "the picture"); }
  json webp(std::string_view bytes) { return checked(bytes, "image/webp", "the preview"); }

 private:
  json embed(const std::filesystem::path& file, std::string_view mime);
  json checked(std::string_view bytes, std::string_view mime, const std::string& name);
  uint64_t left_ = uint64_t{96} << 20;
};

// A single frame of a video.
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

// Decodes frames with the components that also made the clips: runs stage/video.read, in its own process, and
// stage/video.write. Any failure, including a missing plugin or a decoder crash, yields a still without a
// picture.
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

// Where the page's pictures come from.
struct Pictures {
  StillSource still;
  Media media;
};

}  // namespace kinora::core::report
