#include "core/run/weights_digest.hpp"

#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/io/safetensors.hpp"
#include "core/base/digest.hpp"

namespace kinora::core {
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
  for (auto& [path, entry] : all.items()) entry["sha256"] = "kept";
  std::ofstream(kept()) << all.dump();
  EXPECT_EQ(digest({file}), "sha256:kept");
  put("a", "abcd");
  EXPECT_EQ(digest({file}), "sha256:" + sha256("abcd"));
  put("a", "abc");
  put("kept.json", "damaged");
  EXPECT_EQ(digest({file}), first);
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
