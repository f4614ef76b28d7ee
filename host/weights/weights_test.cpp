// Tests how a manifest translates a published configuration into a component's options.
#include "host/weights/weights.hpp"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/digest.hpp"
#include "core/io/contents.hpp"
#include "core/plugin/manifest.hpp"
#include "host/weights/published_classes.hpp"
#include "host/weights/safetensors.hpp"
#include "tests/support/component.hpp"
#include "tests/support/refusal.hpp"

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
  const ComponentSpec tower_ = test::component(kTower);
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

TEST_F(FolderOptions, OfAnotherClassAreRefusedWithItsComponent) {
  const auto said = [&](const json& object, const char* id) {
    ComponentSpec spec;
    spec.id = id;
    return of_another_class(config(object), spec);
  };
  const json cosmos{{"_class_name", "AutoencoderKLCosmos"}},
      vace{{"_class_name", "WanVACETransformer3DModel"}},
      whole{{"architectures", {"T5ForConditionalGeneration"}}}, umt5{{"architectures", {"UMT5EncoderModel"}}};
  EXPECT_EQ(said(cosmos, "tokenizer/cosmos"), "");
  EXPECT_THAT(said(cosmos, "tokenizer/wan"),
              testing::AllOf(testing::HasSubstr("config.json: the network's class is AutoencoderKLCosmos"),
                             testing::HasSubstr("use tokenizer/cosmos")));
  EXPECT_THAT(said(vace, "model/wan"),
              testing::HasSubstr("WanVACETransformer3DModel, which Kinora does not have"));
  EXPECT_EQ(said(vace, "model/of-another-plugin"), "") << "a plugin may read any class";
  EXPECT_EQ(said(whole, "model/t5"), "") << "transformers has several classes for the same weights";
  EXPECT_THAT(said(umt5, "model/t5"), testing::HasSubstr("use model/umt5"));
  EXPECT_EQ(said({{"_class_name", 7}}, "model/wan"), "");
}

}  // namespace

namespace {

namespace fs = std::filesystem;

class WeightsDigest : public testing::Test {
 protected:
  WeightsDigest() : folder_(fs::path(testing::TempDir()) / ("weights_digest-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~WeightsDigest() override { fs::remove_all(folder_); }
  fs::path put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  std::string digest(const std::vector<fs::path>& files) { return weights_digest(files, kept()); }
  fs::path kept() const { return folder_ / "kept.json"; }
  fs::path folder_;
};

// FIPS 180-2, appendix B: the digests of "abc" and of a million "a".
TEST_F(WeightsDigest, OfOneFileIsItsSha256) {
  EXPECT_EQ(digest({put("abc", "abc")}),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of_file(put("long", std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  const std::string pieces((size_t{1} << 20) + 17, 'x');
  EXPECT_EQ(sha256_of_file(put("pieces", pieces)), sha256(pieces));
}

TEST_F(WeightsDigest, OfSeveralIsThatOfTheLinesOfSha256sum) {
  const auto a = put("a", "abc"), b = put("b", "b");
  EXPECT_EQ(digest({a, b}), "sha256:" + sha256(sha256("abc") + "  a\n" + sha256("b") + "  b\n"));
  EXPECT_NE(digest({a, b}), digest({b, a}));
}

TEST_F(WeightsDigest, ReadsAFileOnceUntilItChanges) {
  const auto file = put("a", "abc");
  const auto first = digest({file});
  std::ifstream in(kept());
  auto all = nlohmann::json::parse(in);
  for (auto& [file, sha256] : all.items()) sha256 = "kept";
  std::ofstream(kept()) << all.dump();
  EXPECT_EQ(digest({file}), "sha256:kept");
  put("a", "abcd");
  EXPECT_EQ(digest({file}), "sha256:" + sha256("abcd"));
  put("a", "abc");
  put("kept.json", "damaged");
  EXPECT_EQ(digest({file}), first);
}

// A training's summary.json lists its weights, and those of its adapter in a folder below it.
TEST_F(WeightsDigest, OfAFinishedJobIsComparedWithItsList) {
  fs::create_directories(folder_ / "adapter");
  const auto weights = put("weights.safetensors", "abc"),
             adapter = put("adapter/adapter_model.safetensors", "b");
  const json files = list_json(
      {{"weights.safetensors", 3, sha256("abc")}, {"adapter/adapter_model.safetensors", 1, sha256("b")}});
  const auto list = [&](const char* status) {
    put("summary.json", json{{"job", "dit"}, {"status", status}, {"files", files}}.dump());
  };
  list("done");
  for (const auto& file : {weights, adapter}) {
    EXPECT_NO_THROW(require_as_listed(file));
    EXPECT_NO_THROW(require_as_listed(file, kept()));
    EXPECT_NO_THROW(digest({file}));
    fs::create_directories(folder_ / "checkpoints");
    put(file.lexically_relative(folder_).string(), std::string(fs::file_size(file), 'x'));
    fs::last_write_time(file, fs::file_time_type::clock::now() + std::chrono::hours(1));
    for (const auto& read :
         {std::function([&] { require_as_listed(file); }),
          std::function([&] { require_as_listed(file, kept()); }), std::function([&] { digest({file}); })})
      EXPECT_THAT(
          test::refusal(read),
          testing::AllOf(testing::StartsWith(folder_.string() + ": "),
                         testing::HasSubstr(file.filename().string() + " is damaged: its SHA-256"),
                         testing::HasSubstr("run its job again: kinora run FILE --only dit, which continues"),
                         testing::HasSubstr((folder_ / "checkpoints").string())));
  }
  json digests = json::parse(std::ifstream(kept()));
  for (auto& [key, digest] : digests.items()) digest = sha256("abc");
  put("kept.json", digests.dump());
  EXPECT_NO_THROW(require_as_listed(weights, kept())) << "it is not read again";
  put("weights.safetensors", "abcd");
  EXPECT_THAT(test::refusal([&] { require_as_listed(weights); }),
              testing::HasSubstr("has 4 bytes, and 3 were"));
  list("failed");
  EXPECT_NO_THROW(require_as_listed(weights)) << "the job is not done";
  put("summary.json", R"({"status": "done", "files": [{"weights.safetensors": 3}]})");
  EXPECT_NO_THROW(require_as_listed(weights)) << "another program's summary";
}

TEST_F(WeightsDigest, TakesTheFilesThatLoadingReads) {
  const float number = 1;
  const auto tensor = [&](const char* name) {
    return std::vector<SafeTensor>{{name, SafeDtype::f32, {1}, std::as_bytes(std::span(&number, 1))}};
  };
  fs::create_directories(folder_ / "pipeline/transformer");
  put("pipeline/model_index.json", "{}");
  for (const char* shard : {"1", "2"})
    ASSERT_TRUE(write_safetensors(folder_ / "pipeline/transformer" / (std::string(shard) + ".safetensors"),
                                  tensor(shard)));
  put("pipeline/transformer/m.safetensors.index.json",
      R"({"weight_map": {"1": "1.safetensors", "2": "2.safetensors"}})");
  ASSERT_TRUE(write_safetensors(folder_ / "more.safetensors", tensor("1")));
  ComponentSpec model;
  model.kind = "model";
  const auto shards = folder_ / "pipeline/transformer";
  EXPECT_EQ(weights_files({folder_ / "pipeline", folder_ / "more.safetensors"}, model),
            (std::vector<fs::path>{shards / "1.safetensors", shards / "2.safetensors",
                                   folder_ / "more.safetensors"}));
}

}  // namespace
}  // namespace kinora::core
