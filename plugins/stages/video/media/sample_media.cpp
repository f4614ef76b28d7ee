#include "media/sample_media.hpp"

#include "kinora/curation.hpp"
#include "kinora/io.hpp"

namespace kinora::video {
namespace {

// A file on any storage.
class StoredSource final : public ByteSource {
 public:
  explicit StoredSource(std::string_view uri) : reader_(uri) {}
  int64_t size() override { return reader_.size(); }
  int64_t read_at(int64_t offset, void* buffer, int64_t n) override {
    return static_cast<int64_t>(
        reader_.read(static_cast<uint64_t>(offset), buffer, static_cast<uint64_t>(n)));
  }

 private:
  Reader reader_;
};

}  // namespace

Media open_media(const Sample& sample) {
  const std::string key(sample.key());
  for (const char* field : kVideoFields)
    if (const auto bytes = sample.bytes(field))
      return {std::make_unique<MemorySource>(*bytes), key + "." + field};
  if (const auto url = sample.text("url"))
    return {std::make_unique<StoredSource>(*url), std::string(url->substr(url->rfind('/') + 1))};
  for (const char* field : kPictureFields)  // a video of one frame; next to one, its preview
    if (const auto bytes = sample.bytes(field))
      return {std::make_unique<MemorySource>(*bytes), key + "." + field};
  throw Error(KINORA_ERROR_NOT_FOUND,
              "sample '" + key +
                  "' holds no video and no picture; it needs a media field such as mp4 or jpg, or a url");
}

nlohmann::json facts_of(const Probe& p) {
  nlohmann::json out{{"container", p.container},
                     {"duration_s", p.duration_s},
                     {"codec", p.video.codec},
                     {"pixel_format", p.video.pixel_format},
                     {"width", p.video.width},
                     {"height", p.video.height},
                     {"fps", p.video.fps.value()},
                     {"frames", p.video.frames},
                     {"frames_estimated", p.video.frames_estimated},
                     {"rotation", p.video.rotation.degrees},
                     {"mirrored", p.video.rotation.mirrored},
                     {"sample_aspect", p.video.sample_aspect.value()},
                     {"matrix", p.video.colour.matrix_name()},
                     {"field_order", p.video.field_order}};
  for (const auto& [key, value] : p.metadata)
    if (key == "comment") out["comment"] = value;
  if (p.audio)
    out["audio"] = {{"codec", p.audio->codec}, {"rate", p.audio->rate}, {"channels", p.audio->channels}};
  return out;
}

nlohmann::json facts_of(const Sample& sample) {
  const auto text = sample.text("json");
  if (!text) return nlohmann::json::object();
  auto facts = nlohmann::json::parse(*text, nullptr, false);
  if (!facts.is_object())
    throw Error(KINORA_ERROR_DATA,
                "sample '" + std::string(sample.key()) + "': its json field is not a JSON object");
  return facts;
}

}  // namespace kinora::video
