#include "pictures.hpp"

#include <cmath>
#include <turbojpeg.h>

#include <gtest/gtest.h>

#include "kinora/testing.hpp"

namespace kinora::endpoint {
namespace {

struct Decoded {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

Decoded decode(const std::string& bytes) {
  Decoded out;
  int sampling = 0, space = 0;
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  tjhandle decoder = tjInitDecompress();
  EXPECT_EQ(tjDecompressHeader3(decoder, data, bytes.size(), &out.width, &out.height, &sampling, &space), 0);
  out.rgb.resize(static_cast<size_t>(out.width) * out.height * 3);
  EXPECT_EQ(tjDecompress2(decoder, data, bytes.size(), out.rgb.data(), out.width, 0, out.height, TJPF_RGB, 0),
            0);
  tjDestroy(decoder);
  return out;
}

// A plane: red along x, green along y, blue constant.
std::vector<uint8_t> slopes(Size s) {
  std::vector<uint8_t> out;
  for (int64_t y = 0; y < s.height; ++y)
    for (int64_t x = 0; x < s.width; ++x)
      for (const double v : {255.0 * static_cast<double>(x) / static_cast<double>(s.width - 1),
                             255.0 * static_cast<double>(y) / static_cast<double>(s.height - 1), 90.0})
        out.push_back(static_cast<uint8_t>(std::lround(v)));
  return out;
}

TEST(Pictures, AJpegShowsTheFrameInItsColours) {
  const Size size{48, 80};
  const auto rgb = slopes(size);
  const Decoded seen = decode(jpeg(rgb.data(), size, 95));
  ASSERT_EQ(seen.width, 80);
  ASSERT_EQ(seen.height, 48);
  double error = 0;
  for (size_t i = 0; i < rgb.size(); ++i) error += std::abs(rgb[i] - seen.rgb[i]);
  EXPECT_LT(error / static_cast<double>(rgb.size()), 2);
  EXPECT_LT(jpeg(rgb.data(), size, 20).size(), jpeg(rgb.data(), size, 95).size());
}

TEST(Pictures, ShrinkingTakesTheMeanOfEachArea) {
  // 3 x 2 to 2 x 1: areas of 1.5 x 2 pixels.
  const std::vector<uint8_t> rgb{0, 0, 0, 60, 10, 0, 120, 20, 0, 0, 0, 0, 60, 10, 0, 120, 20, 200};
  EXPECT_EQ(shrunk(rgb.data(), {2, 3}, {1, 2}), (std::vector<uint8_t>{20, 3, 0, 100, 17, 67}));
  // A plane stays a plane at any ratio: a pixel has the plane's value at the centre of its area.
  const Size from{101, 67}, to{40, 23};
  const auto big = slopes(from), small = shrunk(big.data(), from, to);
  for (int64_t y = 0; y < to.height; ++y)
    for (int64_t x = 0; x < to.width; ++x) {
      const auto middle = [](int64_t i, int64_t n, int64_t of) {
        return 255.0 *
               ((static_cast<double>(i) + 0.5) * static_cast<double>(of) / static_cast<double>(n) - 0.5) /
               static_cast<double>(of - 1);
      };
      const uint8_t* p = &small[static_cast<size_t>((y * to.width + x) * 3)];
      EXPECT_NEAR(p[0], middle(x, to.width, from.width), 1.01);
      EXPECT_NEAR(p[1], middle(y, to.height, from.height), 1.01);
      EXPECT_EQ(p[2], 90);
    }
}

TEST(Pictures, FitsTheLongerSide) {
  const auto is = [](Size s, int64_t h, int64_t w) { return s.height == h && s.width == w; };
  EXPECT_TRUE(is(fitted({1080, 1920}, 512), 288, 512));
  EXPECT_TRUE(is(fitted({1920, 1080}, 512), 512, 288));
  EXPECT_TRUE(is(fitted({300, 400}, 512), 300, 400));
  EXPECT_TRUE(is(fitted({1, 10000}, 16), 1, 16));
}

TEST(Pictures, Base64IsThatOfRfc4648) {
  const char* cases[][2] = {{"", ""},
                            {"f", "Zg=="},
                            {"fo", "Zm8="},
                            {"foo", "Zm9v"},
                            {"foob", "Zm9vYg=="},
                            {"fooba", "Zm9vYmE="},
                            {"foobar", "Zm9vYmFy"}};
  for (const auto& c : cases) EXPECT_EQ(base64(c[0]), c[1]);
}

TEST(Pictures, RefusesTensorsThatAreNoFrames) {
  kinora::testing::start();
  const auto code = [](std::vector<int64_t> shape, uint8_t type, uint8_t bits) {
    Sample s("clip");
    size_t bytes = bits / 8;
    for (const int64_t n : shape) bytes *= static_cast<size_t>(n);
    s.set_tensor("frames", std::vector<uint8_t>(bytes), std::move(shape), type, bits);
    try {
      frames_of(s);
    } catch (const Error& e) {
      return e.code();
    }
    return static_cast<int32_t>(KINORA_OK);
  };
  EXPECT_EQ(code({2, 4, 6, 3}, KINORA_DL_UINT, 8), KINORA_OK);
  EXPECT_EQ(code({2, 4, 6, 4}, KINORA_DL_UINT, 8), KINORA_ERROR_DATA);
  EXPECT_EQ(code({0, 4, 6, 3}, KINORA_DL_UINT, 8), KINORA_ERROR_DATA);
  EXPECT_EQ(code({4, 6, 3}, KINORA_DL_UINT, 8), KINORA_ERROR_DATA);
  EXPECT_EQ(code({2, 4, 6, 3}, KINORA_DL_FLOAT, 32), KINORA_ERROR_DATA);
  EXPECT_EQ(code({1, 1, 65501, 3}, KINORA_DL_UINT, 8), KINORA_ERROR_DATA);
}

}  // namespace
}  // namespace kinora::endpoint
