#include "kernels/cpu/content_score.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/content_score_rows.hpp"
#include "kernels/cpu/frame_meter.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using content_score_detail::avx2_rows;
using content_score_detail::avx512_rows;
using content_score_detail::plain_rows;
using content_score_detail::PlanarRow;
using content_score_detail::RowKernels;
using content_score_detail::rows_for;

using Bytes = std::vector<uint8_t>;

// Even and odd sides, one column, fewer than sixteen chroma samples, portrait, both sides of the size limit
// that is kept.
const FrameSize kSizes[] = {{1280, 720}, {854, 480}, {853, 479}, {640, 361}, {512, 288},
                            {568, 320},  {360, 640}, {257, 31},  {256, 256}, {300, 2},
                            {1, 300},    {30, 400},  {31, 300},  {32, 300},  {33, 270},
                            {64, 64},    {17, 3},    {1, 1},     {4000, 2},  {259, 258}};

const YuvMatrix kMatrices[] = {kBt601Limited,
                               kBt709Limited,
                               {104597, 132201, 25675, 53279, true},
                               {110013, 140363, 12277, 42626, false}};

// Half noise, half pure black and white, so that every clamp and every tie occurs.
Bytes random_bytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (uint8_t& byte : bytes) {
    const uint64_t bits = random();
    byte = (bits >> 8) % 2 == 0 ? static_cast<uint8_t>(bits) : (bits >> 9) % 2 == 0 ? 0 : 255;
  }
  return bytes;
}

// Planes whose storage ends with the last sample, so that a sanitizer sees any read beyond it.
struct Planes {
  Planes(FrameSize size, uint64_t seed, int padding, bool upside_down)
      : chroma_width((size.width + 1) / 2), chroma_height((size.height + 1) / 2) {
    make(y, view.y, view.y_stride, size.width, size.height, seed, padding, upside_down);
    make(u, view.u, view.u_stride, chroma_width, chroma_height, seed + 1, padding, upside_down);
    make(v, view.v, view.v_stride, chroma_width, chroma_height, seed + 2, padding, upside_down);
  }
  static void make(Bytes& bytes, const uint8_t*& data, std::ptrdiff_t& stride, int width, int height,
                   uint64_t seed, int padding, bool upside_down) {
    stride = width + padding;
    bytes = random_bytes(static_cast<size_t>(stride * (height - 1) + width), seed);
    data = bytes.data();
    if (upside_down) {
      data += stride * (height - 1);
      stride = -stride;
    }
  }
  int chroma_width, chroma_height;
  Bytes y, u, v;
  Yuv420View view;
};

Bytes bgr_of(const Yuv420View& frame, FrameSize size, const YuvMatrix& matrix) {
  Bytes bgr(3 * static_cast<size_t>(size.width) * size.height);
  reference::yuv420_to_bgr(frame, size, matrix, bgr.data(), 3 * size.width);
  return bgr;
}

BgrView packed(const Bytes& bgr, FrameSize size) { return {bgr.data(), 3 * size.width}; }

Bytes scaled_by_reference(const Bytes& bgr, FrameSize source, FrameSize scaled) {
  Bytes out(3 * static_cast<size_t>(scaled.width) * scaled.height);
  reference::resize_linear_bgr(packed(bgr, source), source, out.data(), 3 * scaled.width, scaled);
  return out;
}

std::string name(FrameSize size) { return std::to_string(size.width) + "x" + std::to_string(size.height); }

TEST(ContentScoreSize, MakesTheLongerSide256) {
  const struct {
    FrameSize source, scaled;
  } cases[] = {{{1280, 720}, {256, 144}}, {{1920, 1080}, {256, 144}}, {{640, 360}, {256, 144}},
               {{720, 1280}, {144, 256}}, {{854, 480}, {256, 144}},   {{352, 288}, {256, 209}},
               {{256, 144}, {256, 144}},  {{214, 160}, {214, 160}},   {{4000, 2}, {256, 1}},
               {{512, 5}, {256, 2}},      {{512, 7}, {256, 4}}};  // 2.5 and 3.5 round to even
  for (const auto& c : cases) EXPECT_EQ(content_score_size(c.source), c.scaled) << name(c.source);
}

TEST(YuvToBgr, IsTheMatrixWithinThreeLevels) {
  // ITU-R BT.601: Kr 0.299, Kb 0.114. The fixed point truncates instead of rounding, three times for green.
  for (const bool full_range : {false, true}) {
    YuvMatrix matrix = kBt601Limited;
    matrix.full_range = full_range;
    const double luma_step = full_range ? 1.0 : 255.0 / 219, chroma_step = full_range ? 1.0 : 255.0 / 224;
    std::mt19937_64 random(3);
    double worst = 0;
    for (int trial = 0; trial < 100000; ++trial) {
      const uint8_t y = random() % 256, u = random() % 256, v = random() % 256;
      Bytes pixel(3);
      reference::yuv420_to_bgr({&y, &u, &v, 1, 1, 1}, {1, 1}, matrix, pixel.data(), 3);
      const double luma = (y - (full_range ? 0 : 16)) * luma_step;
      const double blue = (u - 128) * chroma_step, red = (v - 128) * chroma_step;
      const double exact[3] = {luma + 1.772 * blue, luma - 0.344136 * blue - 0.714136 * red,
                               luma + 1.402 * red};
      for (int c = 0; c < 3; ++c) {
        worst = test::worse(worst, std::abs(pixel[c] - std::clamp(exact[c], 0.0, 255.0)));
      }
    }
    EXPECT_LT(worst, 3.0) << "full range " << full_range;
  }
}

TEST(ResizePlan, LoadsNothingBeyondARow) {
  for (const FrameSize source : kSizes) {
    const ResizePlan plan(source, content_score_size(source));
    const auto ends_within = [&](const GatherPlan& gather, int row_bytes) {
      for (const auto& lanes : gather.offset) {
        for (const int32_t offset : lanes)
          EXPECT_TRUE(offset >= 0 && offset + 16 <= row_bytes) << name(source);
      }
    };
    ends_within(plan.luma, source.width);
    ends_within(plan.chroma, (source.width + 1) / 2);
    for (const GatherPlan& gather : plan.bgr) ends_within(gather, 3 * source.width);
  }
}

TEST(ResizeLinear, IsBilinearWithinOneLevel) {
  for (const FrameSize source : kSizes) {
    const FrameSize scaled = content_score_size(source);
    const Bytes bgr = random_bytes(3 * static_cast<size_t>(source.width) * source.height, 11);
    const Bytes out = scaled_by_reference(bgr, source, scaled);
    const auto sample = [&](int x, int y, int c) {
      return static_cast<double>(
          bgr[3 * (static_cast<size_t>(std::clamp(y, 0, source.height - 1)) * source.width +
                   std::clamp(x, 0, source.width - 1)) +
              c]);
    };
    double worst = 0;
    for (int i = 0; i < scaled.width * scaled.height * 3; ++i) {
      const int c = i % 3, x = i / 3 % scaled.width, y = i / 3 / scaled.width;
      const double at_x = (x + 0.5) * source.width / scaled.width - 0.5;
      const double at_y = (y + 0.5) * source.height / scaled.height - 0.5;
      const int left = static_cast<int>(std::floor(at_x)), top = static_cast<int>(std::floor(at_y));
      const double right_part = at_x - left, lower_part = at_y - top;
      const double upper = sample(left, top, c) * (1 - right_part) + sample(left + 1, top, c) * right_part;
      const double lower =
          sample(left, top + 1, c) * (1 - right_part) + sample(left + 1, top + 1, c) * right_part;
      worst = test::worse(worst, std::abs(out[i] - (upper * (1 - lower_part) + lower * lower_part)));
    }
    EXPECT_LE(worst, 1.0) << name(source);
  }
}

TEST(ResizeLinear, OfAnUnscaledFrameIsTheFrame) {
  const FrameSize size{200, 100};
  const Bytes bgr = random_bytes(3 * 200 * 100, 5);
  EXPECT_EQ(scaled_by_reference(bgr, size, size), bgr);
}

TEST(ResizeLinear, RowsEqualTheReferenceForEveryLayout) {
  for (const FrameSize source : kSizes) {
    const FrameSize scaled = content_score_size(source);
    const ResizePlan plan(source, scaled);
    const Bytes bgr = random_bytes(3 * static_cast<size_t>(source.width) * source.height, 17);
    const BgrView upside_down{
        bgr.data() + static_cast<std::ptrdiff_t>(3) * source.width * (source.height - 1), -3 * source.width};
    const auto width = static_cast<size_t>(content_score_detail::padded_width(scaled.width));
    Bytes rows(3 * width), expected(3 * static_cast<size_t>(scaled.width) * scaled.height);
    for (const BgrView view : {packed(bgr, source), upside_down}) {
      reference::resize_linear_bgr(view, source, expected.data(), 3 * scaled.width, scaled);
      Bytes fast;
      for (int y = 0; y < scaled.height; ++y) {
        rows_for(&plan).sample_bgr(plan, view, y, {&rows[0], &rows[width], &rows[2 * width]});
        for (size_t i = 0; i < 3 * static_cast<size_t>(scaled.width); ++i)
          fast.push_back(rows[i % 3 * width + i / 3]);
      }
      EXPECT_EQ(fast, expected) << name(source);
    }
  }
}

TEST(BgrToHsv, EveryBuildEqualsTheReferenceOnEveryColour) {
  constexpr size_t kPlane = 65536;
  Bytes b(kPlane), g(kPlane), r(kPlane), bgr(3 * kPlane), found(3 * kPlane), expected(3 * kPlane);
  for (size_t i = 0; i < kPlane; ++i) g[i] = static_cast<uint8_t>(i), r[i] = static_cast<uint8_t>(i >> 8);
  for (int blue = 0; blue < 256; ++blue) {
    std::fill(b.begin(), b.end(), static_cast<uint8_t>(blue));
    for (size_t i = 0; i < kPlane; ++i) bgr[3 * i] = b[i], bgr[3 * i + 1] = g[i], bgr[3 * i + 2] = r[i];
    reference::bgr_to_hsv({bgr.data(), 3 * 4096}, {4096, 16}, &expected[0], &expected[kPlane],
                          &expected[2 * kPlane]);
    for (const RowKernels* rows : {&plain_rows(), avx2_rows(), avx512_rows()}) {
      if (rows == nullptr) continue;  // this processor has no such vectors
      rows->to_hsv({b.data(), g.data(), r.data()}, kPlane, {&found[0], &found[kPlane], &found[2 * kPlane]});
      ASSERT_EQ(found, expected) << "blue " << blue;
    }
  }
}

// Hue in degrees / 2 and saturation * 255 by the textbook hexcone, in double.
TEST(BgrToHsv, IsTheHexconeRoundedToNearest) {
  for (int b = 0; b < 256; b += 5) {
    for (int g = 0; g < 256; g += 3) {
      for (int r = 0; r < 256; ++r) {
        const Bytes bgr = {static_cast<uint8_t>(b), static_cast<uint8_t>(g), static_cast<uint8_t>(r)};
        uint8_t hue = 0, saturation = 0, value = 0;
        reference::bgr_to_hsv({bgr.data(), 3}, {1, 1}, &hue, &saturation, &value);
        const double high = std::max({b, g, r}), chroma = high - std::min({b, g, r});
        ASSERT_EQ(value, high);
        ASSERT_NEAR(saturation, high == 0 ? 0 : 255 * chroma / high, 0.54) << b << ' ' << g << ' ' << r;
        double sextant = 0;
        if (chroma != 0) {
          sextant = high == r ? (g - b) / chroma : high == g ? 2 + (b - r) / chroma : 4 + (r - g) / chroma;
        }
        // The error of the reciprocal's 12 bits is 5 * 255 * 0.5 / 4096, in addition to the half of rounding.
        const double distance = std::remainder(hue - 30 * sextant, 180.0);
        ASSERT_LE(std::abs(distance), 0.66) << b << ' ' << g << ' ' << r;
        ASSERT_LT(hue, 180);
      }
    }
  }
}

TEST(FrameMeter, DoesNotWrapHueAround) {
  const Bytes reddish_orange = {0, 10, 255}, reddish_pink = {10, 0, 255};  // hue 1 and 179
  FrameMeter meter({1, 1}, {1, 1}, {});
  meter.push({reddish_orange.data(), 3});
  EXPECT_EQ(meter.push({reddish_pink.data(), 3}).hsv, (HsvDifference{178, 0, 0, 1}));
}

TEST(ContentScore, IsTheWeightedMeanOverPlanes) {
  const HsvDifference difference{30, 60, 150, 10};
  EXPECT_EQ(content_score(difference), 8.0);
  EXPECT_EQ(content_score(difference, {.hue = 0, .saturation = 0, .value = 1}), 15.0);
  EXPECT_EQ(content_score(difference, {.hue = -1, .saturation = 1, .value = 2}), (-3.0 + 6.0 + 30.0) / 4.0);
  EXPECT_EQ(content_score({}), 0.0);
}

TEST(FrameMeter, EqualsTheReferenceFrameByFrameWhateverFormAFrameHas) {
  uint64_t seed = 500;
  for (const FrameSize source : kSizes) {
    for (const FrameSize scaled : {content_score_size(source), source, downscaled_size(source, 3)}) {
      FrameMeter meter(source, scaled, {});
      Bytes previous;
      for (int frame = 0; frame < 5; ++frame) {
        const YuvMatrix& matrix = kMatrices[static_cast<size_t>(frame) % std::size(kMatrices)];
        ++seed;
        const Planes planes(source, seed * 10, static_cast<int>(seed % 3) * 7, seed % 2 == 0);
        const Bytes bgr = bgr_of(planes.view, source, matrix);
        const Bytes current = scaled_by_reference(bgr, source, scaled);
        HsvDifference expected{0, 0, 0, int64_t{scaled.width} * scaled.height};
        if (frame > 0) {
          expected = reference::content_difference(packed(previous, scaled), packed(current, scaled), scaled);
        }
        const FrameMeasures pushed =
            frame == 2 ? meter.push(packed(bgr, source)) : meter.push(planes.view, matrix);
        EXPECT_EQ(pushed.hsv, expected) << name(source) << " to " << name(scaled) << " frame " << frame;
        previous = current;
      }
    }
  }
}

// A frame that differs from the previous one in a few places only; the meter receives that one as `before`.
TEST(FrameMeter, LeavesOutNothingThatDiffers) {
  for (const FrameSize size : kSizes) {
    FrameMeter told(size, size, {}), untold(size, size, {});
    Planes last(size, 7, 5, false), now = last;
    now.view = {now.y.data(),       now.u.data(),       now.v.data(),
                last.view.y_stride, last.view.u_stride, last.view.v_stride};
    told.push(last.view, kBt601Limited);
    untold.push(last.view, kBt601Limited);
    std::mt19937_64 random(11);
    for (int trial = 0; trial < 20; ++trial) {
      for (Bytes* plane : {&now.y, &now.u, &now.v})
        if (random() % 2 == 0) (*plane)[random() % plane->size()] ^= static_cast<uint8_t>(random());
      EXPECT_EQ(told.push(now.view, kBt601Limited, &last.view).hsv, untold.push(now.view, kBt601Limited).hsv)
          << name(size);
      last.y = now.y, last.u = now.u, last.v = now.v;
    }
    EXPECT_EQ(told.push(now.view, kBt601Limited, &last.view).hsv,
              (HsvDifference{0, 0, 0, int64_t{size.width} * size.height}));
  }
}

TEST(FrameMeter, TheMeanIsThatOfAllSamples) {
  const FrameSize size{70, 40};
  const Bytes bgr = random_bytes(3 * 70 * 40, 9);
  MeterOptions options;
  options.mean = true;
  FrameMeter meter(size, size, options);
  const double sum = static_cast<double>(std::accumulate(bgr.begin(), bgr.end(), uint64_t{0}));
  EXPECT_EQ(meter.push(packed(bgr, size)).mean, sum / (3 * 70 * 40));
}

// Every row function, at every width around its step; it must not write a byte beyond.
void expect_plain_at_every_width(const RowKernels* fast) {
  if (fast == nullptr) GTEST_SKIP() << "this processor has no such vectors";
  const RowKernels& plain = plain_rows();
  constexpr size_t kRow = 256;
  for (int n = 0; n <= 200; ++n) {
    const Bytes interleaved = random_bytes(3 * static_cast<size_t>(n), 900 + static_cast<uint64_t>(n));
    const Bytes y = random_bytes(static_cast<size_t>(n), 1),
                u = random_bytes(static_cast<size_t>(n + 1) / 2, 2),
                v = random_bytes(static_cast<size_t>(n + 1) / 2, 3);
    const auto run = [&](const RowKernels& kernels) {
      Bytes rows(11 * kRow, 0xA5);
      const auto planes = [&](size_t first) {
        return PlanarRow{&rows[first * kRow], &rows[(first + 1) * kRow], &rows[(first + 2) * kRow]};
      };
      kernels.split(interleaved.data(), n, planes(0));
      kernels.to_hsv(planes(0), n, planes(3));
      kernels.convert_yuv420(y.data(), u.data(), v.data(),
                             content_score_detail::yuv_factors(kMatrices[n % 4]), n, planes(6));
      kernels.to_luma(planes(0), n, &rows[9 * kRow]);
      kernels.to_grey(planes(0), n, &rows[10 * kRow]);
      return rows;
    };
    EXPECT_EQ(run(*fast), run(plain)) << n;
    const Bytes a = random_bytes(static_cast<size_t>(n), 1), b = random_bytes(static_cast<size_t>(n), 2);
    EXPECT_EQ(fast->absolute_difference(a.data(), b.data(), n),
              plain.absolute_difference(a.data(), b.data(), n));
    EXPECT_EQ(fast->sum(a.data(), n), plain.sum(a.data(), n));
    Bytes kept = a;
    EXPECT_EQ(fast->replace(kept.data(), b.data(), n), plain.absolute_difference(a.data(), b.data(), n));
    EXPECT_EQ(kept, b);
  }
}

TEST(ContentScoreRows, Avx2EqualsPlainAtEveryWidth) { expect_plain_at_every_width(avx2_rows()); }
TEST(ContentScoreRows, Avx512EqualsPlainAtEveryWidth) { expect_plain_at_every_width(avx512_rows()); }

}  // namespace
}  // namespace kinora
