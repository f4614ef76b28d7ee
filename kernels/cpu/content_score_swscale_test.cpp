// Oracle of the content score's first step: libswscale itself. When OpenCV reads a yuv420p frame, libswscale
// turns it into bgr24 with SWS_BICUBIC and no accuracy flag; the sampled conversion must give the same bytes.
extern "C" {
#include <libavutil/cpu.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/content_score.hpp"

namespace kinora {
namespace {

using Bytes = std::vector<uint8_t>;

// ITU-R BT.709, FCC, BT.601, SMPTE 240M, BT.2020.
constexpr int kSpaces[] = {SWS_CS_ITU709, SWS_CS_FCC, SWS_CS_ITU601, SWS_CS_SMPTE240M, SWS_CS_BT2020};

YuvMatrix matrix_of(int space, bool full_range) {
  const int* c = sws_getCoefficients(space);
  return {c[0], c[1], c[2], c[3], full_range};
}

// libswscale's plain C converter rounds differently; the model is its x86 vector code.
bool libswscale_uses_vector_code() {
  return (av_get_cpu_flags() & (AV_CPU_FLAG_MMXEXT | AV_CPU_FLAG_SSSE3 | AV_CPU_FLAG_AVX2)) != 0;
}

Bytes by_libswscale(const Yuv420View& frame, FrameSize size, int space, bool full_range) {
  const std::unique_ptr<SwsContext, decltype(&sws_freeContext)> context(
      sws_getContext(size.width, size.height, AV_PIX_FMT_YUV420P, size.width, size.height, AV_PIX_FMT_BGR24,
                     SWS_BICUBIC, nullptr, nullptr, nullptr),
      &sws_freeContext);
  sws_setColorspaceDetails(context.get(), sws_getCoefficients(space), full_range,
                           sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  // Room at the end of each row lets libswscale convert whole blocks of pixels.
  const int stride = (3 * size.width + 127) / 64 * 64;
  Bytes padded(static_cast<size_t>(stride) * size.height);
  const uint8_t* source[4] = {frame.y, frame.u, frame.v, nullptr};
  const int source_strides[4] = {static_cast<int>(frame.y_stride), static_cast<int>(frame.u_stride),
                                 static_cast<int>(frame.v_stride), 0};
  uint8_t* target[4] = {padded.data(), nullptr, nullptr, nullptr};
  const int target_strides[4] = {stride, 0, 0, 0};
  EXPECT_EQ(sws_scale(context.get(), source, source_strides, 0, size.height, target, target_strides),
            size.height);
  Bytes packed;
  for (int y = 0; y < size.height; ++y) {
    const auto row = padded.begin() + static_cast<std::ptrdiff_t>(y) * stride;
    packed.insert(packed.end(), row, row + 3 * size.width);
  }
  return packed;
}

Bytes by_reference(const Yuv420View& frame, FrameSize size, const YuvMatrix& matrix) {
  Bytes bgr(3 * static_cast<size_t>(size.width) * size.height);
  reference::yuv420_to_bgr(frame, size, matrix, bgr.data(), 3 * size.width);
  return bgr;
}

class ContentScoreSwscale : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!libswscale_uses_vector_code()) GTEST_SKIP() << "libswscale has no x86 vector code here";
  }
};

// U varies with columns, Y with pairs of rows, V with frames.
TEST_F(ContentScoreSwscale, EqualsTheReferenceForEveryTriple) {
  const FrameSize size{512, 256};
  Bytes luma(512 * 256), u(256 * 128), v(256 * 128);
  for (int y = 0; y < 256; ++y) {
    for (int x = 0; x < 512; ++x)
      luma[static_cast<size_t>(y) * 512 + x] = static_cast<uint8_t>(y & ~1) | (x & 1);
  }
  for (size_t i = 0; i < u.size(); ++i) u[i] = static_cast<uint8_t>(i % 256);
  const Yuv420View frame{luma.data(), u.data(), v.data(), 512, 256, 256};
  for (const int space : kSpaces) {
    for (const bool full_range : {false, true}) {
      for (int red = 0; red < 256; ++red) {
        std::fill(v.begin(), v.end(), static_cast<uint8_t>(red));
        ASSERT_EQ(by_libswscale(frame, size, space, full_range),
                  by_reference(frame, size, matrix_of(space, full_range)))
            << "space " << space << " full range " << full_range << " V " << red;
      }
    }
  }
}

TEST_F(ContentScoreSwscale, EqualsTheReferenceAtEveryWidth) {
  std::mt19937_64 random(5);
  for (int width = 16; width <= 100; ++width) {
    const FrameSize size{width, 6};
    // libswscale may read whole blocks past a row's end, as decoders' padding allows.
    const int stride = 192;
    std::array<Bytes, 3> planes;
    for (Bytes& plane : planes) {
      plane.resize(static_cast<size_t>(stride) * 6);
      for (uint8_t& byte : plane) byte = static_cast<uint8_t>(random());
    }
    const Yuv420View frame{planes[0].data(), planes[1].data(), planes[2].data(), stride, stride, stride};
    EXPECT_EQ(by_libswscale(frame, size, SWS_CS_ITU709, false), by_reference(frame, size, kBt709Limited))
        << "width " << width;
  }
}

TEST(YuvMatrix, ConstantsAreThoseOfLibswscale) {
  const auto same = [](const YuvMatrix& a, const YuvMatrix& b) {
    return a.v_to_r == b.v_to_r && a.u_to_b == b.u_to_b && a.u_to_g == b.u_to_g && a.v_to_g == b.v_to_g;
  };
  EXPECT_TRUE(same(kBt601Limited, matrix_of(SWS_CS_DEFAULT, false)));
  EXPECT_TRUE(same(kBt709Limited, matrix_of(SWS_CS_ITU709, false)));
}

}  // namespace
}  // namespace kinora
