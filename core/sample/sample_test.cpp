#include "core/sample/sample.hpp"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/host.hpp"
#include "kinora/sample.hpp"

namespace kinora::core {
namespace {

class SampleTest : public testing::Test {
 protected:
};

TEST_F(SampleTest, KeepsFieldsInTheOrderTheyWereSet) {
  Sample s("film-1");
  s.set("mp4", "media");
  s.set("txt", "caption");
  s.set("json", "{}");
  s.set("txt", "longer caption");
  s.remove("json");
  s.remove("nothing");
  const auto fields = s.fields();
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].name, "mp4");
  EXPECT_EQ(fields[1].name, "txt");
  EXPECT_EQ(s.need("txt"), "longer caption");
  EXPECT_FALSE(s.text("json"));
  EXPECT_THROW(s.need("json"), Error);
}

TEST_F(SampleTest, KeysAreNamesThatStayBelowTheirFolder) {
  for (const char* good : {"film-0003", "a/b", "a.b", "..a", "é"}) EXPECT_EQ(Sample(good).key(), good);
  const std::string too_long(201, 'a');
  for (const std::string& bad :
       {std::string(), std::string("."), std::string("../../x"), std::string("/tmp/x"), std::string("a//b"),
        std::string("a/"), std::string("a\nb"), too_long}) {
    EXPECT_THROW(Sample{bad}, Error) << bad;
    EXPECT_THROW(Sample("k").clone(bad), Error) << bad;
  }
}

TEST_F(SampleTest, AnyNameOfAFileMakesAKey) {
  for (const auto& [name, key] :
       std::map<std::string, std::string>{{"a\nb", "a-b"},
                                          {"my.film", "my-film"},
                                          {"", "film"},
                                          {"..", "--"},
                                          {"Größe", "Größe"},
                                          {"a\xff", "a\xef\xbf\xbd"},
                                          {std::string(149, 'x') + "ö", std::string(149, 'x')}}) {
    EXPECT_EQ(key_of_name(name), key);
    EXPECT_EQ(Sample(key_of_name(name)).key(), key);
  }
}

TEST_F(SampleTest, EmptyFieldIsThere) {
  Sample s("k");
  s.set("txt", "");
  ASSERT_TRUE(s.text("txt"));
  EXPECT_EQ(s.text("txt")->size(), 0u);
}

TEST_F(SampleTest, ClonesShareBytesAndKeepThemAlive) {
  auto bytes = std::vector<uint8_t>(1000, 7);
  const auto* where = bytes.data();
  std::optional<Sample> video(std::in_place, "film");
  video->set("mp4", std::move(bytes));
  const Sample clip = video->clone("film-0001");
  video.reset();
  EXPECT_EQ(clip.bytes("mp4")->data(), where);
  EXPECT_EQ(clip.bytes("mp4")->back(), 7);
}

TEST_F(SampleTest, ReplacingInACloneLeavesTheOriginal) {
  Sample a("a");
  a.set("txt", "one");
  Sample b = a.clone("b");
  b.set("txt", "two");
  EXPECT_EQ(a.need("txt"), "one");
  EXPECT_EQ(b.need("txt"), "two");
}

TEST_F(SampleTest, HandsMemoryBackOnceWhenNobodyUsesIt) {
  int released = 0;
  const auto count = [](void* n) { ++*static_cast<int*>(n); };
  {
    Sample a("a");
    const auto& api = samples_table();
    ASSERT_EQ(api.set(a.get(), "mp4", {"xyz", 3}, count, &released), KINORA_OK);
    const Sample b = a.clone("b");
    a.remove("mp4");
    EXPECT_EQ(released, 0);
    EXPECT_EQ(api.set(a.get(), ".bad", {"xyz", 3}, count, &released), KINORA_ERROR_INVALID);
  }
  EXPECT_EQ(released, 1);
}

TEST_F(SampleTest, RefusesNamesThatAreNoFileExtensions) {
  Sample s("a");
  for (const char* name : {"", ".mp4", "a/b", "a\nb"}) EXPECT_THROW(s.set(name, "x"), Error) << name;
  EXPECT_NO_THROW(s.set("shots.json", "{}"));
}

TEST_F(SampleTest, TensorsTravelBesideTheFields) {
  Sample a("a");
  a.set_tensor("frames", std::vector<uint8_t>(2 * 3 * 4), {2, 3, 4}, KINORA_DL_UINT, 8);
  const Sample b = a.clone("b");
  a.remove("frames");
  EXPECT_EQ(a.tensor("frames"), nullptr);
  ASSERT_NE(b.tensor("frames"), nullptr);
  const kinora_dl_tensor& t = *b.tensor("frames");
  EXPECT_EQ(std::vector<int64_t>(t.shape, t.shape + 3), (std::vector<int64_t>{2, 3, 4}));
  ASSERT_NE(t.strides, nullptr) << "DLPack 1.2 forbids null strides";
  EXPECT_EQ(std::vector<int64_t>(t.strides, t.strides + 3), (std::vector<int64_t>{12, 4, 1}));
  EXPECT_TRUE(is_row_major(t));
  EXPECT_TRUE(b.fields().empty());
}

TEST_F(SampleTest, RefusesTensorsItCannotRead) {
  Sample s("a");
  int64_t shape[] = {2, -1};
  kinora_dl_managed bad{1,       0, nullptr,
                        nullptr, 0, {nullptr, KINORA_DL_CPU, 0, 2, KINORA_DL_UINT, 8, 1, shape, nullptr, 0}};
  EXPECT_EQ(samples_table().set_tensor(s.get(), "x", &bad), KINORA_ERROR_INVALID);
  shape[1] = 1;
  bad.major = 2;
  EXPECT_EQ(samples_table().set_tensor(s.get(), "x", &bad), KINORA_ERROR_INVALID);
  EXPECT_EQ(samples_table().set_tensor(s.get(), "x", nullptr), KINORA_ERROR_INVALID);
  bad.major = 1;
  bad.tensor.device_type = KINORA_DL_CUDA;
  EXPECT_EQ(samples_table().set_tensor(s.get(), "x", &bad), KINORA_ERROR_UNSUPPORTED);
  bad.tensor.device_type = KINORA_DL_CPU;
  EXPECT_EQ(samples_table().set_tensor(s.get(), "x", &bad), KINORA_ERROR_INVALID)
      << "elements without memory";
  uint8_t two[2];
  bad.tensor.data = two;
  EXPECT_EQ(samples_table().set_tensor(s.get(), "x", &bad), KINORA_OK);
  s.remove("x");
  bad.tensor.code = 17;
  EXPECT_EQ(samples_table().set_tensor(s.get(), "x", &bad), KINORA_ERROR_UNSUPPORTED)
      << "no type that we know";
  bad.tensor.code = KINORA_DL_UINT;
  bad.tensor.byte_offset = UINT64_MAX;
  EXPECT_EQ(samples_table().set_tensor(s.get(), "x", &bad), KINORA_ERROR_INVALID);
}

TEST_F(SampleTest, RefusesTensorsWhoseSizeWraps) {
  Sample s("a");
  const auto put = [&](std::vector<int64_t> shape, std::vector<int64_t> strides, uint8_t bits = 32,
                       uint16_t lanes = 1) {
    static uint64_t some[8];
    kinora_dl_managed given{1,
                            0,
                            nullptr,
                            nullptr,
                            0,
                            {some, KINORA_DL_CPU, 0, static_cast<int32_t>(shape.size()), KINORA_DL_UINT, bits,
                             lanes, shape.data(), strides.empty() ? nullptr : strides.data(), 0}};
    const int32_t status = samples_table().set_tensor(s.get(), "x", &given);
    if (status == KINORA_OK) s.remove("x");
    return status;
  };
  constexpr int64_t kFar = int64_t{1} << 61;
  EXPECT_EQ(put({2, 3}, {3, 1}), KINORA_OK);
  EXPECT_EQ(put({0, 3}, {}), KINORA_OK);
  EXPECT_EQ(put({int64_t{1} << 32, int64_t{1} << 32}, {}), KINORA_ERROR_INVALID) << "the product wraps to 0";
  EXPECT_EQ(put({0, kFar, kFar}, {}), KINORA_ERROR_INVALID) << "a 0 hides it from who multiplies in order";
  EXPECT_EQ(put({kFar}, {}), KINORA_ERROR_INVALID) << "of elements, not of bytes";
  EXPECT_EQ(put({2, 3}, {1, 2}), KINORA_ERROR_UNSUPPORTED) << "columns first";
  EXPECT_EQ(put({2, 2}, {kFar, kFar}), KINORA_ERROR_UNSUPPORTED);
  EXPECT_EQ(put({2}, {INT64_MIN}), KINORA_ERROR_UNSUPPORTED);
  EXPECT_EQ(put({1, 3}, {7, 1}), KINORA_OK) << "the stride of one row moves nothing";
  EXPECT_EQ(put({0, 3}, {7, 7}), KINORA_OK) << "nor does that of none";
  EXPECT_EQ(put({2}, {1}, 32, 4), KINORA_ERROR_UNSUPPORTED) << "lanes";
  EXPECT_EQ(put({2}, {1}, 4), KINORA_ERROR_UNSUPPORTED) << "half bytes";
  EXPECT_EQ(put({2}, {1}, 24), KINORA_ERROR_UNSUPPORTED) << "three bytes";
  EXPECT_EQ(put({2}, {1}, 0), KINORA_ERROR_UNSUPPORTED) << "no bits";
}

TEST_F(SampleTest, MemoryCountsFieldsAndTensors) {
  Sample s("a");
  const uint64_t empty = s.memory();
  s.set("mp4", std::string(1000, 'x'));
  s.set_tensor("frames", std::vector<uint8_t>(4000), {10, 100}, KINORA_DL_FLOAT, 32);
  EXPECT_EQ(s.memory(), empty + 5000);
}

TEST_F(SampleTest, CountIsAtomic) {
  std::atomic<int> released = 0;
  {
    Sample s("a");
    samples_table().set(
        s.get(), "x", {"y", 1}, [](void* n) { ++*static_cast<std::atomic<int>*>(n); }, &released);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([copy = s] {
        for (int i = 0; i < 10000; ++i) const Sample another = copy;
      });
    }
    for (auto& t : threads) t.join();
  }
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace kinora::core
