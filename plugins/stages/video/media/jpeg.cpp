#include "media/jpeg.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <turbojpeg.h>

#include "media/convert.hpp"

namespace kinora::video {
namespace {

using FileBytes = std::span<const uint8_t>;

constexpr int64_t kLargestFile = int64_t{1} << 27;
constexpr int64_t kMostScans = 500;  // an encoder writes about ten

// Markers of ITU-T T.81, table B.1: the bytes after 0xFF.
constexpr uint8_t kStart = 0xD8, kEnd = 0xD9, kScan = 0xDA, kApp0 = 0xE0, kFirstRestart = 0xD0,
                  kLastRestart = 0xD7, kTemporary = 0x01, kFill = 0xFF;

using Decompressor = std::unique_ptr<void, int (*)(tjhandle)>;

Decompressor decompressor() {
  Decompressor out(tjInitDecompress(), tjDestroy);
  if (!out) throw std::bad_alloc();
  return out;
}

struct Outline {
  int64_t scans = 0;
  bool has_square_pixels = true;
  bool is_followed = false;  // by another picture
};

// Whether an APP0 segment gives equal densities for both directions, in any unit, or none (JFIF 1.02, page 5).
bool has_square_pixels(FileBytes segment) {
  if (segment.size() < 12 || std::memcmp(segment.data(), "JFIF", 5) != 0) return true;
  const int x = segment[8] << 8 | segment[9], y = segment[10] << 8 | segment[11];
  return x == y || x == 0 || y == 0;
}

// Goes from marker to marker. In a scan's data 0xFF comes only before a zero or a restart marker.
Outline outline_of(FileBytes file) {
  Outline out;
  size_t at = 2;
  while (at + 4 <= file.size()) {
    const auto* found = static_cast<const uint8_t*>(std::memchr(&file[at], 0xFF, file.size() - at - 3));
    if (!found) break;
    at = static_cast<size_t>(found - file.data());
    const uint8_t marker = file[at + 1];
    if (marker == kFill) {
      ++at;
    } else if (marker == 0 || marker == kTemporary || (marker >= kFirstRestart && marker <= kLastRestart)) {
      at += 2;
    } else if (marker == kStart || marker == kEnd) {
      constexpr std::string_view kPicture = "\xFF\xD8\xFF";
      const auto rest = file.subspan(at);
      out.is_followed =
          std::string_view(reinterpret_cast<const char*>(rest.data()), rest.size()).find(kPicture) !=
          std::string_view::npos;
      break;
    } else {
      const size_t content = std::max(2, file[at + 2] << 8 | file[at + 3]) - size_t{2};
      at += 4;
      out.scans += marker == kScan;
      if (marker == kApp0 && !has_square_pixels(file.subspan(at, std::min(content, file.size() - at))))
        out.has_square_pixels = false;
      at += content;
    }
  }
  return out;
}

std::vector<uint8_t> jpeg_file(ByteSource& source) {
  uint8_t start[3] = {};
  const int64_t size = source.size();
  std::vector<uint8_t> out;
  if (size > kLargestFile || source.read_at(0, start, 3) != 3 || std::memcmp(start, "\xFF\xD8\xFF", 3) != 0)
    return out;
  out.resize(static_cast<size_t>(size));
  out.resize(static_cast<size_t>(source.read_at(0, out.data(), size)));
  return out;
}

}  // namespace

std::optional<JpegPicture> JpegPicture::open(ByteSource& source, const std::string& name,
                                             const Limits& limits) {
  JpegPicture out;
  out.name_ = name;
  out.file_ = jpeg_file(source);
  if (out.file_.empty()) return std::nullopt;
  const Outline outline = outline_of(out.file_);
  if (outline.scans > kMostScans)
    throw MediaError(name + ": a JPEG of more than " + std::to_string(kMostScans) +
                     " scans, which would take hours to decode; encode it again");
  int sampling = 0, space = -1;  // unchanged where a file ends before its picture
  const auto header = decompressor();
  const bool is_read = tjDecompressHeader3(header.get(), out.file_.data(), out.file_.size(), &out.width_,
                                           &out.height_, &sampling, &space) == 0;
  const bool is_usual = space == TJCS_YCbCr || space == TJCS_GRAY || space == TJCS_RGB;
  if (!is_read || !is_usual || outline.is_followed || !outline.has_square_pixels) return std::nullopt;
  if (std::max(out.width_, out.height_) > limits.max_side ||
      int64_t{out.width_} * out.height_ > limits.max_pixels)
    return std::nullopt;
  return out;
}

bool JpegPicture::decode(uint8_t* rgb, int stride) {
  const auto decoder = decompressor();
  const int code = tjDecompress2(decoder.get(), file_.data(), file_.size(), rgb, width_, stride, height_,
                                 TJPF_RGB, TJFLAG_ACCURATEDCT);
  if (code == 0) return true;
  if (tjGetErrorCode(decoder.get()) == TJERR_FATAL) return false;
  damaged_ = name_ + ": a damaged JPEG (" + tjGetErrorStr2(decoder.get()) + "); fetch it again";
  return true;
}

bool JpegPicture::decode(uint8_t* rgb, const ScalerOptions& size) {
  if (size.width == width_ && size.height == height_) return decode(rgb, 3 * width_);
  const auto whole = allocate_picture(width_, height_, AV_PIX_FMT_RGB24);
  if (!decode(whole->data[0], whole->linesize[0])) return false;
  Scaler(size).bytes(*whole, rgb);
  return true;
}

}  // namespace kinora::video
