// Shards whose samples are read in blocks, through WebDatasetShard.
#include "plugins/jobs/curation/block_reader.hpp"

#include <atomic>
#include <thread>

#include "plugins/jobs/curation/webdataset.hpp"
#include "plugins/jobs/curation/webdataset_testing.hpp"

namespace kinora::core {
namespace {

using namespace webdataset_testing;

// 300 samples of about 10 KB, of which one has 400 KB, and an index. Reads are counted.
class CountedShard {
 public:
  explicit CountedShard(std::string name) : name_(std::move(name)) {
    for (size_t i = 0; i < 300; ++i) {
      offsets_.push_back(bytes_.size());
      const std::string content(i == 200 ? 400'000 : 9'000 + i * 7, static_cast<char>('a' + i % 26));
      const std::string key = fmt::format("k{:03}", i);
      const std::string archive = tar({{key + ".jpg", content}, {key + ".txt", std::to_string(i)}});
      bytes_ += archive.substr(0, archive.size() - 1024);
      shown_.push_back(key + "|jpg=" + content + "|txt=" + std::to_string(i));
    }
    offsets_.push_back(bytes_.size());
    bytes_.append(1024, '\0');
  }

  // Makes the checksum of a sample's first header wrong.
  void damage(size_t i) { bytes_.replace(offsets_[i] + 148, 6, "777777"); }
  const std::string& expected(size_t i) const { return shown_[i]; }
  size_t size() const { return shown_.size(); }
  // How often the shard was read since the last call.
  int64_t reads() { return reads_.exchange(0); }

  WebDatasetShard open() {
    return or_throw(WebDatasetShard::open(
        name_, {}, [this](std::string_view uri) -> Result<std::shared_ptr<const ByteSource>> {
          if (uri == name_)
            return std::shared_ptr<const ByteSource>(std::make_shared<Bytes>(name_, bytes_, &reads_));
          return std::shared_ptr<const ByteSource>(
              std::make_shared<Bytes>(std::string(uri),
                                      std::string(reinterpret_cast<const char*>(offsets_.data()),
                                                  offsets_.size() * sizeof offsets_[0]),
                                      &index_reads_));
        }));
  }

 private:
  class Bytes final : public ByteSource {
   public:
    Bytes(std::string name, std::string bytes, std::atomic<int64_t>* reads)
        : name_(std::move(name)), bytes_(std::move(bytes)), reads_(reads) {}
    const std::string& name() const override { return name_; }
    uint64_t size() const override { return bytes_.size(); }
    Result<uint64_t> read(uint64_t offset, void* to, uint64_t size) const override {
      ++*reads_;
      return bytes_.copy(static_cast<char*>(to), size, std::min<uint64_t>(offset, bytes_.size()));
    }

   private:
    std::string name_, bytes_;
    std::atomic<int64_t>* reads_;
  };

  std::string name_, bytes_;
  std::vector<uint64_t> offsets_;
  std::vector<std::string> shown_;
  std::atomic<int64_t> reads_{0}, index_reads_{0};
};

TEST(BlockReader, SamplesInOrderCostFewReadsAndAreTheSame) {
  CountedShard counted("shards/s.tar");
  const auto shard = counted.open();
  counted.reads();
  for (size_t i = 0; i < counted.size(); ++i) {
    const auto sample = or_throw(shard.at(i));
    ASSERT_EQ(shown(sample), counted.expected(i));
    ASSERT_EQ(sample.where.shard, "shards/s.tar");
    ASSERT_EQ(sample.where.size, or_throw(shard.bytes(i)));
  }
  // Three alone, the large one alone, and 3.6 MB in blocks of 1 MiB, of which one is cut short by the large one.
  EXPECT_LE(counted.reads(), 3 + 1 + 5);
  for (size_t i = counted.size(); i-- > 0;) ASSERT_EQ(shown(or_throw(shard.at(i))), counted.expected(i));
  EXPECT_EQ(counted.reads(), static_cast<int64_t>(counted.size())) << "backwards, each is read alone";
}

TEST(BlockReader, ADamagedSampleCostsNoOther) {
  CountedShard counted("s.tar");
  counted.damage(50);
  const auto shard = counted.open();
  for (size_t i = 0; i < counted.size(); ++i) {
    const auto sample = shard.at(i);
    ASSERT_EQ(bool(sample), i != 50) << i;
    if (sample)
      ASSERT_EQ(shown(*sample), counted.expected(i));
    else
      EXPECT_EQ(sample.failure().code, KINORA_ERROR_DATA);
  }
}

TEST(BlockReader, AStorageIsReadSampleBySample) {
  CountedShard counted("s3://bucket/s.tar");
  const auto shard = counted.open();
  counted.reads();
  for (size_t i = 0; i < counted.size(); ++i) ASSERT_EQ(shown(or_throw(shard.at(i))), counted.expected(i));
  EXPECT_EQ(counted.reads(), static_cast<int64_t>(counted.size()));
}

// Threads take the samples of one shard in turns, as the readers of a training do.
TEST(BlockReader, ThreadsGetTheSameSamples) {
  CountedShard counted("s.tar");
  const auto shard = counted.open();
  std::atomic<size_t> next{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (size_t i = 0; (i = next++) < counted.size();)
        wrong += shown(or_throw(shard.at(i))) != counted.expected(i) ? 1 : 0;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace kinora::core
