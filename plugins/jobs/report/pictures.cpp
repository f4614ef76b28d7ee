#include "plugins/jobs/report/pictures.hpp"

#include <thread>

#include "core/base/cancel.hpp"
#include "plugins/jobs/data/base64.hpp"

namespace kinora::core::report {
namespace {

constexpr uint64_t kLargest = uint64_t{32} << 20;  // of one file
constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n", kJpeg = "\xFF\xD8\xFF";

// Signatures: PNG (specification, section 5.2), whose header with the size ends at byte 24; JPEG's start
// marker; WebP's RIFF header; the box `ftyp` of MP4 (ISO/IEC 14496-12, section 4.3) after its 4 bytes of length.
bool is_what_it_says(std::string_view bytes, std::string_view mime) {
  if (mime == "image/png") return bytes.starts_with(kPng) && bytes.size() > 24;
  if (mime == "image/jpeg") return bytes.starts_with(kJpeg);
  if (mime == "image/webp")
    return bytes.size() > 12 && bytes.starts_with("RIFF") && bytes.substr(8, 4) == "WEBP";
  return bytes.size() > 12 && bytes.substr(4, 4) == "ftyp";
}

// A PNG's width or height, of which the lower 24 bits are kept: no picture here is larger.
int big_endian(std::string_view four) {
  uint32_t v = 0;
  for (const char c : four) v = v << 8 | static_cast<uint8_t>(c);
  return static_cast<int>(v & 0xFFFFFF);
}

}  // namespace

json Media::checked(std::string_view bytes, std::string_view mime, const std::string& name) {
  if (!is_what_it_says(bytes, mime)) return {{"reason", name + " is no " + std::string(mime) + " file"}};
  if (bytes.size() > left_) return {{"reason", name + " is left out: the page would become too large"}};
  left_ -= bytes.size();
  json out{{"uri", "data:" + std::string(mime) + ";base64," + base64(bytes)}};
  if (mime == "image/png") {
    out["width"] = big_endian(bytes.substr(16, 4));
    out["height"] = big_endian(bytes.substr(20, 4));
  }
  return out;
}

json Media::embed(const std::filesystem::path& file, std::string_view mime) {
  const std::string name = file.filename().string();
  if (const auto bytes = read_file(file, kLargest)) return checked(*bytes, mime, name);
  std::error_code error;
  return {{"reason", std::filesystem::exists(file, error) ? name + " is too large for this page"
                                                          : "there is no " + name}};
}

Still Stills::operator()(const StillRequest& request) {
  if (request.media.empty()) return {"", "no file is named"};
  if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  // The decoder reads a video from its start, so frame n costs n frames.
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
    const json options{
        {"frames", 1}, {"height", request.height}, {"width", request.width}, {"threads", threads}};
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
