#include "media/orientation.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "media/convert.hpp"
#include "media/picture_header.hpp"

namespace kinora::video {
namespace {

constexpr int64_t kLargestFile = int64_t{1} << 27;

// Part of a file; reading beyond its end gives 0.
class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  size_t size() const { return bytes_.size(); }
  uint64_t number(size_t at, size_t bytes, bool is_big) const {
    uint64_t out = 0;
    if (at > size() || bytes > size() - at) return 0;
    for (size_t i = 0; i < bytes; ++i) out = out << 8 | bytes_[at + (is_big ? i : bytes - 1 - i)];
    return out;
  }
  bool has(size_t at, std::string_view text) const {
    return at <= size() && text.size() <= size() - at &&
           std::memcmp(&bytes_[at], text.data(), text.size()) == 0;
  }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }
  Bytes part(size_t at, uint64_t length) const {
    const size_t from = std::min(at, size());
    return Bytes(bytes_.subspan(from, static_cast<size_t>(std::min<uint64_t>(length, size() - from))));
  }

 private:
  std::span<const uint8_t> bytes_;
};

// The orientations that a file states, 1 to 8.
struct Stated {
  std::optional<int> exif, xmp;
  int value() const { return exif.value_or(xmp.value_or(1)); }
};

// Reads the tag from a TIFF header and its first directory (TIFF 6.0, section 2), which has 12 bytes a field:
// tag, type, count, value. 1 if the tag has another value, nothing without the tag.
std::optional<int> tag_in_tiff(const Bytes& tiff) {
  const bool is_big = tiff.has(0, {"MM\0*", 4});
  if (!is_big && !tiff.has(0, {"II*\0", 4})) return std::nullopt;
  const auto directory = static_cast<size_t>(tiff.number(4, 4, is_big));
  const auto fields = static_cast<size_t>(tiff.number(directory, 2, is_big));
  constexpr uint64_t kTag = 0x0112, kShort = 3;
  for (size_t i = 0; i < fields; ++i) {
    const size_t at = directory + 2 + 12 * i;
    if (at + 12 > tiff.size()) break;
    if (tiff.number(at, 2, is_big) != kTag) continue;
    const uint64_t value = tiff.number(at + 8, 2, is_big);
    return tiff.number(at + 2, 2, is_big) == kShort && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return std::nullopt;
}

// Reads tiff:Orientation (XMP specification, part 2, 3.5), an attribute or an element: `="6"` or `>6<` behind the name.
std::optional<int> tag_in_xmp(const Bytes& xmp) {
  constexpr std::string_view kName = "tiff:Orientation", kSpaces = " \t\r\n";
  const std::string_view text = xmp.text();
  const size_t name = text.find(kName);
  if (name == std::string_view::npos) return std::nullopt;
  size_t at = text.find_first_not_of(kSpaces, name + kName.size());
  if (at == std::string_view::npos) return std::nullopt;
  const bool is_attribute = text[at] == '=';
  if (!is_attribute && text[at] != '>') return std::nullopt;
  at = text.find_first_not_of(is_attribute ? " \t\r\n\"'" : kSpaces, at + 1);
  if (at == std::string_view::npos || at + 1 >= text.size() || text[at] < '1' || text[at] > '8')
    return std::nullopt;
  return text[at + 1] >= '0' && text[at + 1] <= '9' ? std::nullopt : std::optional(text[at] - '0');
}

constexpr std::string_view kExif("Exif\0\0", 6);

// Segments up to the scan: marker, length with itself, content.
Stated stated_in_jpeg(const Bytes& file) {
  constexpr std::string_view kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
  Stated out;
  for (size_t at = 2; at + 4 <= file.size();) {
    const uint64_t marker = file.number(at, 2, true);
    if (marker == 0xFFFF) {  // fill byte
      ++at;
      continue;
    }
    if (marker < 0xFF00 || marker == 0xFFDA || marker == 0xFFD9) break;
    const auto length = std::max<size_t>(2, static_cast<size_t>(file.number(at + 2, 2, true)));
    const Bytes content = file.part(at + 4, length - 2);
    if (marker == 0xFFE1 && content.has(0, kExif) && !out.exif)
      out.exif = tag_in_tiff(content.part(kExif.size(), length));
    if (marker == 0xFFE1 && content.has(0, kXmp) && !out.xmp) out.xmp = tag_in_xmp(content);
    at += 2 + length;
  }
  return out;
}

// Chunks: length, type, content, checksum. XMP is an international text, uncompressed (XMP specification,
// part 3, 1.1.5).
Stated stated_in_png(const Bytes& file) {
  constexpr std::string_view kXmp("XML:com.adobe.xmp\0\0", 19);
  Stated out;
  for (size_t at = 8; at + 12 <= file.size() && !file.has(at + 4, "IEND");) {
    const uint64_t length = file.number(at, 4, true);
    const Bytes content = file.part(at + 8, length);
    if (file.has(at + 4, "eXIf")) out.exif = tag_in_tiff(content);
    if (file.has(at + 4, "iTXt") && content.has(0, kXmp)) out.xmp = tag_in_xmp(content);
    at += 12 + static_cast<size_t>(length);
  }
  return out;
}

// Chunks of RIFF: type, length, content, padded to an even length. Some writers put JPEG's name before Exif.
Stated stated_in_webp(const Bytes& file) {
  Stated out;
  for (size_t at = 12; at + 8 <= file.size();) {
    const uint64_t length = file.number(at + 4, 4, false);
    const Bytes content = file.part(at + 8, length);
    if (file.has(at, "EXIF"))
      out.exif = tag_in_tiff(content.part(content.has(0, kExif) ? kExif.size() : 0, length));
    if (file.has(at, "XMP ")) out.xmp = tag_in_xmp(content);
    at += 8 + static_cast<size_t>(length + length % 2);
  }
  return out;
}

}  // namespace

Orientation Orientation::of(std::span<const uint8_t> bytes) {
  // By the tag, which names the sides of the upright picture at which the stored first row and first column are: 1 top,
  // left; 2 top, right; 3 bottom, right; 4 bottom, left; 5 left, top; 6 right, top; 7 right, bottom; 8 left, bottom.
  static const Orientation kByTag[] = {{0},         {0, true}, {180},      {180, true},
                                       {270, true}, {90},      {90, true}, {270}};
  const Bytes file(bytes);
  Stated stated;
  if (file.has(0, "\xFF\xD8\xFF")) stated = stated_in_jpeg(file);
  if (file.has(0, "\x89PNG\r\n\x1A\n")) stated = stated_in_png(file);
  if (file.has(0, "RIFF") && file.has(8, "WEBP")) stated = stated_in_webp(file);
  return kByTag[stated.value() - 1];
}

Orientation Orientation::of(ByteSource& source) {
  uint8_t start[12] = {};
  if (source.size() > kLargestFile || source.read_at(0, start, sizeof start) != sizeof start ||
      !begins_as_picture(start))
    return {};
  std::vector<uint8_t> file(static_cast<size_t>(source.size()));
  file.resize(static_cast<size_t>(source.read_at(0, file.data(), static_cast<int64_t>(file.size()))));
  return of(file);
}

std::vector<uint8_t> upright(std::vector<uint8_t> rgb, int64_t height, int64_t width, Orientation stored) {
  if (stored.is_upright()) return rgb;
  std::vector<uint8_t> out(rgb.size());
  const auto row = [](int64_t pixels) { return static_cast<ptrdiff_t>(3 * pixels); };
  rotate_plane({rgb.data(), row(width)}, static_cast<int>(width), static_cast<int>(height), 3, stored,
               {out.data(), row(stored.swaps_sides() ? height : width)});
  return out;
}

}  // namespace kinora::video
