// A folder of videos, and a server of them whose models are the one of fake_model_test.cpp.
#pragma once
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/serve/api_error.hpp"
#include "apps/serve/videos.hpp"

namespace kinora::serve {

class VideosTest : public testing::Test {
 protected:
  using json = nlohmann::json;
  VideosTest() {
    std::string name = (std::filesystem::temp_directory_path() / "kinora-videos-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    settings_.folder = folder_;
    settings_.models = {{.name = "m", .pipeline = folder_ / "a run file"}};
  }
  ~VideosTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Videos> serve() const {
    auto out = std::make_unique<Videos>(settings_, std::filesystem::read_symlink("/proc/self/exe"));
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    EXPECT_TRUE(out->ready([&] { return std::chrono::steady_clock::now() > late; }));
    return out;
  }
  static std::string create(Videos& videos, const std::string& prompt, const std::string& key = "") {
    return videos.create({{"prompt", prompt}}, {}, key).at("id");
  }
  std::filesystem::path folder_of(const std::string& id) const { return folder_ / "videos" / id; }
  static std::string bytes_of(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::string status_of(const Videos& videos, const std::string& id) {
    return videos.get(id).at("status");
  }

  template <class F>
  static std::optional<ApiError> error_of(F f) {
    try {
      f();
    } catch (const ApiError& e) {
      return e;
    }
    return std::nullopt;
  }
  // "404 not_found", or "" without an error.
  template <class F>
  static std::string refusal(F f) {
    const auto e = error_of(f);
    return e ? std::to_string(e->status) + " " + e->code : "";
  }
  // Whether f becomes true within seconds.
  template <class F>
  static bool eventually(F f) {
    for (int tries = 0; tries < 2000; ++tries) {
      if (f()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return f();
  }
  static bool becomes(const Videos& videos, const std::string& id, const std::string& status) {
    return eventually([&] { return status_of(videos, id) == status; });
  }

  std::filesystem::path folder_;
  Settings settings_;
};

}  // namespace kinora::serve
