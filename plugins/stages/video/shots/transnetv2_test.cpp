// TransNet V2 against the published PyTorch implementation with the real weights
// (tests/oracle/make_transnetv2_fixtures.py).
#include "shots/transnetv2.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "media/byte_source.hpp"
#include "media/media_testing.hpp"

namespace kinora::video::transnetv2 {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes bytes_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::filesystem::path published_weights() {
  const char* assets = std::getenv("KINORA_ASSETS");
  return std::filesystem::path(assets ? assets : "") / "transnetv2" / "transnetv2.safetensors";
}

// The tensor `thumbnails` of the fixture, uint8.
Bytes thumbnails_of(const Bytes& file) {
  uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  const auto at = nlohmann::json::parse(file.begin() + 8, file.begin() + 8 + static_cast<ptrdiff_t>(header))
                      .at("thumbnails")
                      .at("data_offsets")
                      .get<std::vector<ptrdiff_t>>();
  const auto begin = file.begin() + 8 + static_cast<ptrdiff_t>(header);
  return {begin + at[0], begin + at[1]};
}

// The published pipeline's numbers: windows of 100 frames, 50 apart, of which the middle 50 count; 25 copies of the
// first frame come before the video, and copies of the last fill the last window.
void in_windows(const Network& network, const Bytes& video, int64_t frames, std::vector<float>& change,
                std::vector<float>& part) {
  for (int64_t first = 0; first < frames; first += 50) {
    Sequence window(network);
    for (int64_t i = first - 25; i < first + 75; ++i)
      window.push(video.data() + std::clamp<int64_t>(i, 0, frames - 1) * kFrameBytes);
    window.finish();
    ASSERT_EQ(window.change().size(), 100u);
    for (int64_t i = 0; i < 50 && first + i < frames; ++i) {
      change.push_back(window.change()[static_cast<size_t>(25 + i)]);
      part.push_back(window.part()[static_cast<size_t>(25 + i)]);
    }
  }
}

TEST(TransNetV2, AWindowEqualsThePublishedNetwork) {
  if (!std::filesystem::exists(published_weights()))
    GTEST_SKIP() << published_weights() << " is missing; run packaging/dev.sh setup to create it";
  const Network network(parse_weights(bytes_of_file(published_weights()), "weights"), "weights");
  const Bytes fixture = bytes_of_file(testing::data("oracle") / "transnetv2.safetensors");
  const Weights oracle = parse_weights(fixture, "fixture");
  const Bytes video = thumbnails_of(fixture);
  for (const auto& [name, frames] : {std::pair<std::string, int64_t>{"first_50", 50}, {"one", 1}}) {
    std::vector<float> change, part;
    in_windows(network, video, frames, change, part);
    ASSERT_EQ(change.size(), oracle.at(name + "_change").values.size());
    for (size_t i = 0; i < change.size(); ++i) {
      EXPECT_NEAR(change[i], oracle.at(name + "_change").values[i], 1e-4) << name << " " << i;
      EXPECT_NEAR(part[i], oracle.at(name + "_part").values[i], 1e-4) << name << " " << i;
    }
  }
}

// Weights of zeros but for a bias: every frame has the same answer, in whatever number they come.
TEST(TransNetV2, AnswersEveryFrameOnce) {
  Weights weights;
  for (const auto& [name, shape] : expected_weights()) {
    int64_t count = 1;
    for (const int64_t side : shape) count *= side;
    weights[name] = {shape, std::vector<float>(static_cast<size_t>(count))};
  }
  weights["cls_layer1.bias"].values[0] = 1;
  weights["cls_layer2.bias"].values[0] = -2;
  const Network network(weights, "zeros");
  const Bytes frame(static_cast<size_t>(kFrameBytes), 7);
  for (const size_t frames : {1u, 9u, 130u}) {
    Sequence sequence(network);
    size_t late = 0;
    for (size_t i = 0; i < frames; ++i) {
      sequence.push(frame.data());
      late = std::max<size_t>(late, i + 1 - sequence.change().size());
    }
    EXPECT_LT(static_cast<int64_t>(late), Sequence::kDelay);
    sequence.finish();
    ASSERT_EQ(sequence.change().size(), frames);
    ASSERT_EQ(sequence.part().size(), frames);
    for (size_t i = 0; i < frames; ++i) {
      EXPECT_NEAR(sequence.change()[i], 1 / (1 + std::exp(-1.0)), 1e-6);
      EXPECT_NEAR(sequence.part()[i], 1 / (1 + std::exp(2.0)), 1e-6);
    }
  }
}

template <class F>
std::string error_in(F&& f) {
  try {
    f();
  } catch (const MediaError& e) {
    return e.what();
  }
  return "none";
}

TEST(TransNetV2Weights, AWrongFileIsNamed) {
  using ::testing::HasSubstr;
  Weights weights;
  for (const auto& [name, shape] : expected_weights()) {
    int64_t count = 1;
    for (const int64_t side : shape) count *= side;
    weights[name] = {shape, std::vector<float>(static_cast<size_t>(count))};
  }
  auto turned = weights, lacking = weights;
  turned["fc1.weight"].shape = {4864, 1024};
  lacking.erase("cls_layer2.bias");
  EXPECT_THAT(error_in([&] { Network(turned, "w.safetensors"); }),
              HasSubstr("w.safetensors: 'fc1.weight' has shape [4864, 1024], expected [1024, 4864]"));
  EXPECT_THAT(error_in([&] { Network(lacking, "w"); }), HasSubstr("no float32 tensor 'cls_layer2.bias'"));
  const auto parse = [](const std::string& header, size_t data, uint64_t said) {
    Bytes file(8 + header.size() + data);
    std::memcpy(file.data(), &said, sizeof said);
    std::memcpy(file.data() + 8, header.data(), header.size());
    return parse_weights(file, "w");
  };
  const std::string good = R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})";
  EXPECT_EQ(parse(good, 8, good.size()).at("a").values.size(), 2u);
  EXPECT_THAT(error_in([&] { parse(good, 7, good.size()); }), HasSubstr("the bytes of 'a' do not fit"));
  EXPECT_THAT(error_in([&] { parse(good, 8, good.size() + 9); }), HasSubstr("its header is cut off"));
  EXPECT_THAT(error_in([&] { parse("[]", 0, 2); }), HasSubstr("not a JSON object"));
  const std::string large =
      R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 8]}})";
  EXPECT_THAT(error_in([&] { parse(large, 8, large.size()); }), HasSubstr("'a' is too large"));
  EXPECT_THAT(error_in([&] { parse_weights(Bytes(3), "w"); }), HasSubstr("not a safetensors file"));
}

}  // namespace
}  // namespace kinora::video::transnetv2
