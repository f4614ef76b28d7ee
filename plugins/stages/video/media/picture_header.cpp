#include "media/picture_header.hpp"

#include <algorithm>
#include <string_view>

namespace kinora::video {
namespace {

using std::string_view;

// A file's bytes by offset.
class PictureBytes {
 public:
  PictureBytes(std::span<const uint8_t> file, string_view name) : file_(file), name_(name) {}

  size_t size() const { return file_.size(); }
  bool has(size_t at, string_view text) const {
    return at <= size() &&
           string_view(reinterpret_cast<const char*>(file_.data()), size()).substr(at).starts_with(text);
  }
  int64_t byte(size_t at) const {
    if (at >= size()) throw MediaError(name_ + ": the file ends before its picture begins; fetch it again");
    return file_[at];
  }
  int64_t big(size_t at, size_t bytes) const {
    int64_t out = 0;
    for (size_t i = 0; i < bytes; ++i) out = out << 8 | byte(at + i);
    return out;
  }
  int64_t little(size_t at, size_t bytes) const {
    int64_t out = 0;
    for (size_t i = bytes; i-- > 0;) out = out << 8 | byte(at + i);
    return out;
  }
  MediaError error(const std::string& what) const { return MediaError(name_ + ": " + what); }
  MediaError animation() const {
    return error("an animation; convert it to a video such as MP4, or keep one of its frames as a picture");
  }

 private:
  std::span<const uint8_t> file_;
  std::string name_;
};

// The size is in the frame header SOFn: markers C0 to CF but DHT (C4), JPG (C8) and DAC (CC).
PictureHeader jpeg_header(const PictureBytes& file) {
  for (size_t at = 2;;) {
    if (file.byte(at) != 0xFF) throw file.error("a damaged JPEG; fetch it again");
    const int64_t marker = file.byte(at + 1);
    if (marker == 0xFF) {  // fill byte
      ++at;
      continue;
    }
    if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC)
      return {"jpg", file.big(at + 7, 2), file.big(at + 5, 2)};
    at += 2 + static_cast<size_t>(file.big(at + 2, 2));
  }
}

// Looks at every chunk: length, type, content, checksum.
PictureHeader png_header(const PictureBytes& file) {
  constexpr int64_t kMostCompressed = 256 << 10;  // deflate inflates to at most 1,032 times as much
  const PictureHeader out{"png", file.big(16, 4), file.big(20, 4)};
  int64_t compressed = 0;
  for (size_t at = 8; !file.has(at + 4, "IEND");) {
    if (at + 12 > file.size()) throw file.error("the PNG is cut off; fetch it again");
    const int64_t length = file.big(at, 4);
    if (file.has(at + 4, "acTL")) throw file.animation();
    if (file.has(at + 4, "zTXt") || file.has(at + 4, "iCCP")) compressed += length;
    if (compressed > kMostCompressed)
      throw file.error(
          "the PNG has more than 256 KiB of compressed texts and profiles; write it without them");
    at += 12 + static_cast<size_t>(length);
  }
  return out;
}

PictureHeader webp_header(const PictureBytes& file) {
  constexpr size_t kContent = 20;  // of the first chunk
  if (8 + file.little(4, 4) > static_cast<int64_t>(file.size()))
    throw file.error("the WebP is cut off; fetch it again");
  if (file.has(12, "VP8X")) {
    if ((file.byte(kContent) & 2) != 0) throw file.animation();
    return {"webp", 1 + file.little(kContent + 4, 3), 1 + file.little(kContent + 7, 3)};
  }
  if (file.has(12, "VP8L")) {
    const int64_t sides = file.little(kContent + 1, 4);
    return {"webp", 1 + (sides & 0x3FFF), 1 + (sides >> 14 & 0x3FFF)};
  }
  return {"webp", file.little(kContent + 6, 2) & 0x3FFF, file.little(kContent + 8, 2) & 0x3FFF};
}

bool is_jpeg(const PictureBytes& file) { return file.has(0, "\xFF\xD8\xFF"); }
bool is_png(const PictureBytes& file) { return file.has(0, "\x89PNG\r\n\x1A\n"); }
bool is_webp(const PictureBytes& file) { return file.has(0, "RIFF") && file.has(8, "WEBP"); }

}  // namespace

bool begins_as_picture(std::span<const uint8_t> start) {
  const PictureBytes file(start, "");
  return is_jpeg(file) || is_png(file) || is_webp(file);
}

PictureHeader picture_header(std::span<const uint8_t> bytes, const std::string& name, const Limits& limits) {
  const PictureBytes file(bytes, name);
  const PictureHeader out = is_jpeg(file)  ? jpeg_header(file)
                            : is_png(file) ? png_header(file)
                                           : webp_header(file);
  if (out.width < 1 || out.height < 1) throw file.error("its header has no picture size; fetch it again");
  if (std::max(out.width, out.height) > limits.max_side || out.width > limits.max_pixels / out.height)
    throw file.error("the picture is " + std::to_string(out.width) + " x " + std::to_string(out.height) +
                     " pixels, over the limit of " + std::to_string(limits.max_side) + " per side and " +
                     std::to_string(limits.max_pixels) + " in total; scale it down");
  return out;
}

}  // namespace kinora::video
