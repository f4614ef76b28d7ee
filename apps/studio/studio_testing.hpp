// A studio on a folder of two finished curate jobs.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "apps/studio/studio.hpp"

namespace kinora::studio {

namespace fs = std::filesystem;
using nlohmann::json;

class StudioTest : public testing::Test {
 protected:
  StudioTest() {
    std::string name = (fs::temp_directory_path() / "kinora-studio-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    for (const char* job : {"one", "two"}) {
      fs::create_directories(folder_ / job / "data");
      std::ofstream(folder_ / job / "job.json") << R"({"kind": "curate"})";
      std::ofstream(folder_ / job / "summary.json") << "{}";
      std::ofstream items(folder_ / job / "items.jsonl");
      for (int i = 0; i < 4; ++i)
        items << json{{"key", "k" + std::to_string(i)}, {"end", i == 3 ? "failed" : "kept"}, {"parent", "f"}}
              << "\n";
    }
  }
  ~StudioTest() override { fs::remove_all(folder_); }
  Studio studio(const char* author = "mia") {
    return Studio(folder_, author,
                  [](const auto&, const auto&) { return std::vector<std::vector<float>>(); });
  }
  static std::string decision(Studio& studio, const char* id) {
    return studio.clip({{"id", id}})["decision"];
  }

  fs::path folder_;
};

}  // namespace kinora::studio
