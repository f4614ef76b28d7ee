#include "core/report/stills.hpp"

#include <thread>

#include "core/run/cancel.hpp"
#include "core/run/one_stage.hpp"

namespace kinora::core::report {
namespace {

std::string jpeg_of(Registry& registry, const StillRequest& request) {
  const auto threads = std::min<unsigned>(std::max(1U, std::thread::hardware_concurrency()), 8);
  Sample sample("still");
  sample.set("url", request.media);
  const json read{{"first", request.frame},
                  {"frames", 1},
                  {"height", request.height},
                  {"width", request.width},
                  {"threads", threads}};
  sample = OneStage(registry, "video.read", read)(sample);
  sample = OneStage(registry, "video.write", json{{"format", "jpeg"}, {"quality", 82}})(sample);
  return std::string(sample.need("jpg"));
}

}  // namespace

Still Stills::operator()(const StillRequest& request) {
  if (request.media.empty()) return {"", "no file is named"};
  if (cancelled()) throw Error(KINORA_CANCELLED, "cancelled");
  if (request.frame > frames_left_) return {"", "too deep in a long film to decode for a picture"};
  frames_left_ -= request.frame;
  auto jpeg = catching([&] { return jpeg_of(registry_, request); });
  if (!jpeg) return {"", jpeg.failure().message};
  return {*std::move(jpeg), ""};
}

}  // namespace kinora::core::report
