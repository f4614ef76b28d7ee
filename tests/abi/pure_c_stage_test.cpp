// A stage written in C, through the real loader: options, samples, outcomes and errors cross the ABI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/elf.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/options.hpp"
#include "core/runtime/call.hpp"
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
  void SetUp() override { open("pure_c_stage", "stage/count.bytes"); }
  void open(const std::string& plugin, const std::string& id) {
    fs::create_directory(folder_.path() / plugin);
    fs::copy_file(PluginsFolder::built(plugin), folder_.path() / plugin / ("lib" + plugin + ".so"));
    registry_ = folder_.scan();
    auto c = registry_.open(id);
    ASSERT_TRUE(c) << c.failure().message;
    component_ = *c;
  }
  int32_t run(const json& given, Sample& sample, Collected& to) {
    const auto options = or_throw(Options::make(*component_.spec, given));
    const auto& stage = component_.table<kinora_stage>();
    void* self = stage.create(&core_host(), options.abi());
    EXPECT_NE(self, nullptr);
    Call call;
    const kinora_run run = run_of(call);
    const int32_t status = stage.process(self, sample.get(), &to.emit, &run);
    stage.destroy(self);
    return status;
  }
  PluginsFolder folder_;
  Registry registry_ = folder_.scan();
  Component component_;
};

TEST_F(PureCStage, CountsTheBytesOfAField) {
  Sample video("film-0001");
  video.set("mp4", "four");
  Collected to;
  ASSERT_EQ(run({}, video, to), KINORA_OK);
  ASSERT_EQ(to.emitted.size(), 1u);
  EXPECT_EQ(to.emitted[0].key(), "film-0001");
  EXPECT_EQ(to.emitted[0].need("size"), "4");
}

TEST_F(PureCStage, DropsByItsRuleWithTheScore) {
  Sample video("film-0001");
  video.set("txt", std::string(2000, 'x'));
  Collected to;
  ASSERT_EQ(run({{"field", "txt"}, {"at_most", "1 KiB"}}, video, to), KINORA_OK);
  EXPECT_TRUE(to.emitted.empty());
  EXPECT_EQ(to.rule, "count.too-large");
  EXPECT_EQ(to.score, 2000);
}

TEST_F(PureCStage, ItsErrorComesWithItsMessage) {
  Sample video("film-0001");
  Collected to;
  const auto status = from_abi(run({}, video, to), "process");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.failure().code, KINORA_ERROR_NOT_FOUND);
  EXPECT_EQ(status.failure().message, "the sample has no field 'mp4'; choose one with option 'field'");
}

TEST_F(PureCStage, GeneratedManifestIsTheEmbeddedOne) {
  const auto library = folder_.path() / "pure_c_stage/libpure_c_stage.so";
  EXPECT_EQ(or_throw(generate_manifest(*open_library(library), {})),
            or_throw(read_embedded_manifest(library)).value());
}

// The second example: new samples, made of their input, with a tensor each.
TEST_F(PureCStage, SplitsATextIntoSamples) {
  open("split_stage", "stage/split.lines");
  Sample text("film-0001");
  text.set("txt", "one\ntwo\n\nx");
  text.set("mp4", "shared");
  Collected to;
  ASSERT_EQ(run({}, text, to), KINORA_OK);
  ASSERT_EQ(to.emitted.size(), 4u);
  EXPECT_EQ(to.emitted[3].key(), "film-0001-0003");
  EXPECT_EQ(to.emitted[1].need("txt"), "two");
  EXPECT_EQ(to.emitted[2].need("txt"), "");
  EXPECT_EQ(to.emitted[0].need("mp4"), "shared");
  const kinora_dl_tensor* counts = to.emitted[0].tensor("counts");
  ASSERT_NE(counts, nullptr);
  ASSERT_EQ(counts->shape[0], 256);
  EXPECT_EQ(static_cast<const int64_t*>(counts->data)['n'], 1);
  EXPECT_EQ(text.need("txt"), "one\ntwo\n\nx") << "the input stays as it was";
  Sample none("film-0002");
  EXPECT_EQ(run({}, none, to), KINORA_ERROR_INVALID);
}

}  // namespace
}  // namespace kinora::core::test
