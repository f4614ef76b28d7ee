#include "plugins/jobs/data/media.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/status.hpp"
#include "core/sample/sample.hpp"
#include "kinora/webdataset.hpp"

namespace kinora::data {
namespace {

using nlohmann::json;

// "webp" of "preview.webp" and "preview.WEBP"
std::string ending_of(std::string_view field) {
  return field_name(field.substr(field.rfind('.') + 1));  // npos + 1 is 0
}

// The medium under the name of a field that stages open: the ending.
Sample sample_of(const std::string& key, const std::string& field, std::vector<uint8_t> bytes) {
  Sample out(core::key_of_name(key));
  out.set(ending_of(field).c_str(), std::move(bytes));
  return out;
}

// Returns the error of the medium alone; other errors are thrown.
template <class Call>
std::string failure_of(Call&& call) {
  try {
    call();
    return "";
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_CANCELLED || e.code() == KINORA_ERROR_IO) throw;
    return e.what();
  }
}

}  // namespace

bool is_medium(std::string_view field) {
  constexpr std::string_view kMedia[] = {"mp4", "webm", "mkv",  "mov", "avi", "ogv",
                                         "mpg", "jpg",  "jpeg", "png", "webp"};
  return std::find(std::begin(kMedia), std::end(kMedia), ending_of(field)) != std::end(kMedia);
}

bool is_decoded(std::string_view field) {
  return is_medium(field) && field.find('.') == std::string_view::npos;
}

MediaDecoder::MediaDecoder(core::Registry& registry)
    : probe_(registry, "video.probe", json{{"count", true}}) {}

std::string MediaDecoder::problem(const std::string& key, const std::string& field,
                                  std::vector<uint8_t> bytes) {
  std::string damage;
  std::string failure =
      failure_of([&] { damage = core::damage_of(probe_(sample_of(key, field, std::move(bytes)))); });
  return failure.empty() ? damage : failure;
}

PictureMaker::PictureMaker(core::Registry& registry)
    : registry_(registry),
      probe_(registry, "video.probe", json::object()),
      write_(registry, "video.write", json{{"format", "jpeg"}, {"quality", 82}}) {}

Picture PictureMaker::operator()(const std::string& key, const std::string& field,
                                 std::vector<uint8_t> bytes) {
  Picture out;
  out.reason = failure_of([&] { out = made(sample_of(key, field, std::move(bytes))); });
  return out;
}

// A long video is not decoded to its end: its frames come from its beginning.
Picture PictureMaker::made(Sample sample) {
  constexpr int64_t kFrames = 4, kDeepest = 600;
  constexpr int kHeight = 144;
  sample = probe_(sample);
  const json facts = json::parse(sample.need("json"), nullptr, false);
  Picture out;
  const auto number = [&](const char* name) {
    return facts.is_object() && facts.contains(name) && facts[name].is_number() ? facts[name].get<double>()
                                                                                : 0.0;
  };
  out.width = static_cast<int>(number("width"));
  out.height = static_cast<int>(number("height"));
  out.seconds = number("duration_s");
  const auto frames = std::min(static_cast<int64_t>(number("frames")), kDeepest);
  const int64_t stride = std::max<int64_t>(1, (frames - 1) / (kFrames - 1));
  auto& reader = readers_[stride];
  if (!reader)
    reader = std::make_unique<core::OneStage>(
        registry_, "video.read", json{{"frames", kFrames}, {"stride", stride}, {"height", kHeight}});
  out.jpeg = write_((*reader)(sample)).need("jpg");
  return out;
}

}  // namespace kinora::data
