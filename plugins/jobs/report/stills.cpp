#include "plugins/jobs/report/stills.hpp"

#include <thread>

#include "core/base/cancel.hpp"

namespace kinora::core::report {

Still Stills::operator()(const StillRequest& request) {
  if (request.media.empty()) return {"", "no file is named"};
  if (cancelled()) throw Error(KINORA_CANCELLED, "cancelled");
  if (request.frame > frames_left_) return {"", "too far into a long video to decode for a picture"};
  frames_left_ -= request.frame;
  auto jpeg = catching([&] { return jpeg_of(request); });
  if (!jpeg) return {"", jpeg.failure().message};
  return {*std::move(jpeg), ""};
}

std::string Stills::jpeg_of(const StillRequest& request) {
  auto& read = (*readers_)[{request.height, request.width}];
  if (!read) {
    const auto threads = std::min<unsigned>(std::max(1U, std::thread::hardware_concurrency()), 8);
    const json options{{"frames", 1}, {"height", request.height}, {"width", request.width}, {"threads", threads}};
    read = std::make_unique<OneStage>(registry_, "video.read", options);
  }
  Sample sample("still");
  sample.set("url", request.media);
  sample.set("first", std::to_string(request.frame));
  sample = (*read)(sample);
  sample = OneStage(registry_, "video.write", json{{"format", "jpeg"}, {"quality", 82}})(sample);
  return std::string(sample.need("jpg"));
}

}  // namespace kinora::core::report
