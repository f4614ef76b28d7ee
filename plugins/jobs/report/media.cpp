#include "plugins/jobs/report/media.hpp"

#include "plugins/jobs/report/base64.hpp"

namespace kinora::core::report {
namespace {

constexpr uint64_t kLargest = uint64_t{32} << 20;  // of one file
constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n", kJpeg = "\xFF\xD8\xFF";

bool is_what_it_says(std::string_view bytes, std::string_view mime) {
  if (mime == "image/png") return bytes.starts_with(kPng) && bytes.size() > 24;
  if (mime == "image/jpeg") return bytes.starts_with(kJpeg);
  return bytes.size() > 12 && bytes.substr(4, 4) == "ftyp";
}

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
  return {{"reason",
           std::filesystem::exists(file, error) ? name + " is too large for this page" : "there is no " + name}};
}

}  // namespace kinora::core::report
