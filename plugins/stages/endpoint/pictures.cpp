#include "pictures.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <turbojpeg.h>

#include <openssl/evp.h>

namespace kinora::endpoint {
namespace {

constexpr int64_t kMostSide = 65500;  // JPEG's limit

// Shares of source pixels first, first + 1, ... in a row or column of the result.
struct Span {
  int64_t first = 0;
  std::vector<float> share;  // sums to 1
};

std::vector<Span> spans(int64_t from, int64_t to) {
  std::vector<Span> out(static_cast<size_t>(to));
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    const double begin = static_cast<double>(i) * scale, end = static_cast<double>(i + 1) * scale;
    Span& s = out[static_cast<size_t>(i)];
    s.first = static_cast<int64_t>(begin);
    const int64_t last = std::min(from, static_cast<int64_t>(std::ceil(end - 1e-9)));
    for (int64_t p = s.first; p < last; ++p) {
      const double covered =
          std::min(end, static_cast<double>(p + 1)) - std::max(begin, static_cast<double>(p));
      s.share.push_back(static_cast<float>(covered / scale));
    }
  }
  return out;
}

}  // namespace

Pictures frames_of(const Sample& sample) { return pictures_of(sample, kMostSide); }

Size fitted(Size size, int64_t max_side) {
  const int64_t longer = std::max(size.height, size.width);
  if (longer <= max_side) return size;
  const auto scaled = [&](int64_t n) {
    return std::max<int64_t>(1, (n * max_side * 2 + longer) / (2 * longer));
  };
  return {scaled(size.height), scaled(size.width)};
}

std::vector<uint8_t> shrunk(const uint8_t* rgb, Size from, Size to) {
  const auto rows = spans(from.height, to.height), columns = spans(from.width, to.width);
  std::vector<uint8_t> out(static_cast<size_t>(to.height * to.width * 3));
  std::vector<float> row(static_cast<size_t>(from.width * 3));
  uint8_t* write = out.data();
  for (const Span& r : rows) {
    std::fill(row.begin(), row.end(), 0.0F);
    for (size_t k = 0; k < r.share.size(); ++k) {
      const uint8_t* source = rgb + (r.first + static_cast<int64_t>(k)) * from.width * 3;
      for (size_t i = 0; i < row.size(); ++i) row[i] += r.share[k] * source[i];
    }
    for (const Span& c : columns)
      for (int64_t channel = 0; channel < 3; ++channel) {
        float sum = 0;
        for (size_t k = 0; k < c.share.size(); ++k)
          sum += c.share[k] * row[static_cast<size_t>((c.first + static_cast<int64_t>(k)) * 3 + channel)];
        *write++ = static_cast<uint8_t>(std::lround(std::clamp(sum, 0.0F, 255.0F)));
      }
  }
  return out;
}

std::string jpeg(const uint8_t* rgb, Size size, int quality) {
  const std::unique_ptr<void, int (*)(tjhandle)> encoder(tjInitCompress(), tjDestroy);
  unsigned char* bytes = nullptr;
  unsigned long n = 0;
  const int failed = encoder ? tjCompress2(encoder.get(), rgb, static_cast<int>(size.width), 0,
                                           static_cast<int>(size.height), TJPF_RGB, &bytes, &n, TJSAMP_420,
                                           quality, TJFLAG_ACCURATEDCT)
                             : -1;
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owned(bytes, tjFree);
  if (failed != 0)
    throw Error(KINORA_ERROR_DATA, std::string("cannot encode a frame as JPEG: ") +
                                       (encoder ? tjGetErrorStr2(encoder.get()) : "out of memory"));
  return std::string(reinterpret_cast<const char*>(bytes), n);
}

std::string base64(const std::string& bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock appends a zero
  const int n =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(static_cast<size_t>(n));
  return out;
}

std::string data_url(const Pictures& frames, size_t i, int64_t max_side, int quality) {
  const Size from{frames.height, frames.width}, to = fitted(from, max_side);
  const std::string prefix = "data:image/jpeg;base64,";
  if (to.height == from.height && to.width == from.width)
    return prefix + base64(jpeg(frames.frame(i), from, quality));
  return prefix + base64(jpeg(shrunk(frames.frame(i), from, to).data(), to, quality));
}

}  // namespace kinora::endpoint
