// A stage written in C, through the real loader: options, samples, outcomes and errors cross the ABI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/elf.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/options.hpp"
#include "kinora/abi/stage.h"
#include "kinora/sample.hpp"
#include "tests/abi/plugins_folder.hpp"

namespace kinora::core::test {
namespace {

struct Collected {
  std::vector<Sample> emitted;
  std::string rule;
  double score = 0;
  kinora_emit emit{sizeof(kinora_emit),
                   0,
                   this,
                   [](void* self, kinora_sample* s) {
                     static_cast<Collected*>(self)->emitted.push_back(Sample::adopt(s));
                     return KINORA_OK;
                   },
                   [](void* self, kinora_sample* s, const char* rule, double score) {
                     Sample::adopt(s);
                     static_cast<Collected*>(self)->rule = rule;
                     static_cast<Collected*>(self)->score = score;
                     return KINORA_OK;
                   },
                   nullptr,
                   nullptr,
                   nullptr};
};

class PureCStage : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_.path() / "c");
    fs::copy_file(PluginsFolder::built("pure_c_stage"), folder_.path() / "c/libc.so");
    registry_ = folder_.scan();
    auto c = registry_.open("stage/count.bytes");
    ASSERT_TRUE(c) << c.failure().message;
    component_ = *c;
  }
  int32_t run(const json& given, Sample& sample, Collected& to) {
    const auto options = or_throw(Options::make(*component_.spec, given));
    const auto& stage = component_.table<kinora_stage>();
    void* self = stage.create(&core_host(), options.abi());
    EXPECT_NE(self, nullptr);
    const int32_t status = stage.process(self, sample.get(), &to.emit, nullptr);
    stage.destroy(self);
    return status;
  }
  PluginsFolder folder_;
  Registry registry_ = folder_.scan();
  Component component_;
};

TEST_F(PureCStage, CountsTheBytesOfAField) {
  Sample film("film-0001");
  film.set("mp4", "four");
  Collected to;
  ASSERT_EQ(run({}, film, to), KINORA_OK);
  ASSERT_EQ(to.emitted.size(), 1u);
  EXPECT_EQ(to.emitted[0].key(), "film-0001");
  EXPECT_EQ(to.emitted[0].need("size"), "4");
}

TEST_F(PureCStage, DropsByItsRuleWithTheScore) {
  Sample film("film-0001");
  film.set("txt", std::string(2000, 'x'));
  Collected to;
  ASSERT_EQ(run({{"field", "txt"}, {"at_most", "1 KiB"}}, film, to), KINORA_OK);
  EXPECT_TRUE(to.emitted.empty());
  EXPECT_EQ(to.rule, "count.too-large");
  EXPECT_EQ(to.score, 2000);
}

TEST_F(PureCStage, ItsErrorComesWithItsMessage) {
  Sample film("film-0001");
  Collected to;
  const auto status = from_abi(run({}, film, to), "process");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.failure().code, KINORA_ERROR_NOT_FOUND);
  EXPECT_EQ(status.failure().message, "the sample has no field 'mp4'; choose one with option 'field'");
}

TEST_F(PureCStage, GeneratedManifestIsTheEmbeddedOne) {
  const auto library = folder_.path() / "c/libc.so";
  EXPECT_EQ(or_throw(generate_manifest(*open_library(library), {})),
            or_throw(read_embedded_manifest(library)).value());
}

}  // namespace
}  // namespace kinora::core::test
