// Tests how a manifest translates a published configuration into a component's options.
#include "core/run/folder_options.hpp"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/manifest.hpp"

namespace kinora::core {
namespace {

constexpr const char* kTower = R"([[component]]
id = "model/tower"
help = "a test model"
input.latent = { shape = "[B]", dtype = "float" }
option.size = { type = "string", default = "", choices = ["", "big"] }
option.heads = { type = "int", default = 6, min = 1, config = ["side_config.num_heads ?? 12", "num_heads"] }
option.patch = { type = "int", default = 2, min = 1, config = ["patch_size[1]"] }
option.learnt = { type = "bool", default = false, config = ["kind == learnt", "kinds[0] == learnt"] }
option.fps = { type = "float", default = 0.0, min = 0, config = ["fps ?? 24"] }
option.norm = { type = "string", default = "rms", choices = ["rms", ""] }
option.mean = { type = "floats", default = [1.0] }
)";

class FolderOptions : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kinora-folder-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path config(const json& object, const std::string& under = "") const {
    std::filesystem::create_directories(folder_ / under);
    std::ofstream(folder_ / under / "config.json") << object.dump();
    return folder_ / under / "config.json";
  }
  const ComponentSpec tower_ = or_throw(parse_component(kTower, "tower"));
  std::filesystem::path folder_;
};

TEST_F(FolderOptions, AreTranslatedAsTheManifestSays) {
  const auto read = [&](const json& object) { return read_config(config(object), tower_, true); };
  const std::pair<json, json> cases[] = {
      {json::object(), {{"fps", 24}}},
      {{{"fps", 30}, {"num_heads", 3}}, {{"fps", 30}, {"heads", 3}}},
      {{{"heads", 2}, {"num_heads", 3}}, {{"fps", 24}, {"heads", 2}}},
      {{{"side_config", {{"num_heads", 4}}}, {"num_heads", 3}}, {{"fps", 24}, {"heads", 4}}},
      {{{"side_config", json::object()}}, {{"fps", 24}, {"heads", 12}}},
      {{{"patch_size", {1, 4, 4}}}, {{"fps", 24}, {"patch", 4}}},
      {{{"patch_size", {1}}}, {{"fps", 24}}},
      {{{"kind", "learnt"}}, {{"fps", 24}, {"learnt", true}}},
      {{{"kind", "fixed"}, {"kinds", {"learnt"}}}, {{"fps", 24}, {"learnt", true}}},
      {{{"kind", nullptr}, {"kinds", 7}}, {{"fps", 24}, {"learnt", false}}},
      {{{"norm", nullptr}, {"mean", nullptr}, {"fps", nullptr}, {"heads", nullptr}},
       {{"fps", 0}, {"norm", ""}, {"mean", json::array()}}},
  };
  for (const auto& [object, options] : cases) EXPECT_EQ(read(object), options) << object.dump();
}

TEST_F(FolderOptions, ThatAreGivenWin) {
  const auto file = config({{"num_heads", 3}, {"patch_size", {1, 4}}});
  const json options = with_config(tower_, {{"heads", 5}}, file);
  EXPECT_EQ(options, json({{"heads", 5}, {"patch", 4}, {"fps", 24}}));
  EXPECT_EQ(with_config(tower_, {{"size", "big"}}, file), json({{"size", "big"}}));
  EXPECT_EQ(with_config(tower_, {{"heads", 5}}, {}), json({{"heads", 5}}));
}

TEST_F(FolderOptions, ComeFromTheFirstFolderThatHasThem) {
  std::ofstream(folder_ / "delta.safetensors") << "";
  const auto part = config({{"num_heads", 3}}, "pipeline/transformer").parent_path();
  EXPECT_EQ(config_of({folder_ / "delta.safetensors", folder_, part}, tower_), part / "config.json");
  EXPECT_EQ(config_of({folder_ / "delta.safetensors", folder_}, tower_), "");
  std::ofstream(folder_ / "pipeline/model_index.json") << "{}";
  EXPECT_EQ(config_of({folder_ / "pipeline"}, tower_), part / "config.json");
  std::filesystem::create_directories(folder_ / "pipeline/transformer_2");
  EXPECT_EQ(config_of({folder_ / "pipeline"}, tower_), part / "config.json") << "the first of two experts";
}

}  // namespace
}  // namespace kinora::core
