#include "plugins/jobs/loading/sample_cache.hpp"

#include <fstream>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "plugins/jobs/loading/set_files.hpp"

namespace kinora::core {
namespace {

using ::testing::HasSubstr;

class SampleCacheOf : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kinora-cache-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string name(int n) {
    return SampleCache::name_of("s3://b/x.tar", 1, 2, static_cast<uint64_t>(n), 4);
  }
  std::filesystem::path file(int n) const { return folder_ / name(n).substr(0, 2) / name(n); }
  // Returns the n-th name's bytes in the cache, this many; "" if there are none.
  static std::string found(const SampleCache& cache, int n, size_t size) {
    std::string out(size, '\0');
    return cache.find(name(n), out.data(), size) ? out : "";
  }
  static void keep(SampleCache& cache, int n, const std::string& bytes) {
    cache.keep(name(n), bytes.data(), bytes.size());
  }
  uint64_t size_of_files() const {
    uint64_t out = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
      if (entry.is_regular_file()) out += entry.file_size();
    return out;
  }

  std::filesystem::path folder_;
};

TEST_F(SampleCacheOf, FindsWhatItKept) {
  SampleCache cache(folder_, 1 << 20);
  keep(cache, 1, "abcd");
  EXPECT_EQ(found(cache, 1, 4), "abcd");
  EXPECT_EQ(found(cache, 2, 4), "");
  const SampleCache other(folder_, 1 << 20);
  EXPECT_EQ(found(other, 1, 4), "abcd") << "another process";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(file(1).parent_path()), {}), 1)
      << "no temporary";
  EXPECT_EQ(other.find(name(1)), "abcd") << "of any size";
  EXPECT_EQ(other.find(name(2)), std::nullopt);
  std::ofstream(file(1)) << "abce" << std::ifstream(file(1)).rdbuf();
  EXPECT_EQ(other.find(name(1)), std::nullopt) << "damaged";
  std::ofstream(file(1)) << "ab";
  EXPECT_EQ(other.find(name(1)), std::nullopt) << "cut off";
}

TEST_F(SampleCacheOf, NamesDifferInAllThatWasRead) {
  const std::string one = SampleCache::name_of("u", 1, 2, 3, 4);
  EXPECT_EQ(one, SampleCache::name_of("u", 1, 2, 3, 4));
  EXPECT_NE(one, SampleCache::name_of("v", 1, 2, 3, 4));
  EXPECT_NE(one, SampleCache::name_of("u", 2, 2, 3, 4));
  EXPECT_NE(one, SampleCache::name_of("u", 1, 3, 3, 4));
  EXPECT_NE(one, SampleCache::name_of("u", 1, 2, 4, 4));
  EXPECT_NE(one, SampleCache::name_of("u", 1, 2, 3, 5));
}

TEST_F(SampleCacheOf, ADamagedFileIsMissingUntilItIsReplaced) {
  SampleCache cache(folder_, 1 << 20);
  keep(cache, 1, "abcd");
  std::filesystem::resize_file(file(1), 10);
  EXPECT_EQ(found(cache, 1, 4), "") << "wrong length";
  keep(cache, 1, "abcd");
  EXPECT_EQ(found(cache, 1, 4), "abcd");
  std::fstream(file(1), std::ios::in | std::ios::out | std::ios::binary) << "x";
  EXPECT_EQ(found(cache, 1, 4), "") << "other bytes";
  EXPECT_EQ(found(cache, 1, 3), "") << "of another length than what is asked for";
  keep(cache, 1, "abcd");
  EXPECT_EQ(found(cache, 1, 4), "abcd");
}

TEST_F(SampleCacheOf, TheLeastRecentlyUsedGoWhenTheLimitIsPassed) {
  const std::string bytes(936, 'x');  // and 64 for the digest
  SampleCache cache(folder_, 32'000);
  std::filesystem::create_directories(file(0).parent_path());
  const std::vector<std::filesystem::path> strange{folder_ / "notes.txt",
                                                   file(0).parent_path() / "notes.txt"};
  for (const auto& not_ours : strange) std::ofstream(not_ours) << std::string(1000, 'y');
  const auto now = std::filesystem::file_time_type::clock::now();
  for (int n = 0; n < 32; ++n) {
    keep(cache, n, bytes);
    std::filesystem::last_write_time(file(n), now - std::chrono::seconds(1000 - n));
  }
  for (int n = 0; n < 32; ++n) EXPECT_TRUE(std::filesystem::exists(file(n))) << n;
  EXPECT_EQ(found(cache, 0, 936), bytes) << "now it is the one used last";
  for (int n = 32; n < 36; ++n) keep(cache, n, bytes);
  for (const int n : {0, 31, 32, 33, 34, 35}) EXPECT_TRUE(std::filesystem::exists(file(n))) << n;
  for (const int n : {1, 2, 3}) EXPECT_FALSE(std::filesystem::exists(file(n))) << n;
  for (int n = 100; n < 200; ++n) {
    keep(cache, n, bytes);
    ASSERT_LE(size_of_files(), 2000u + 32'000 + 2000 + 1000)
        << "the others' files, the limit, a sixteenth, one file";
  }
  for (const auto& not_ours : strange) EXPECT_TRUE(std::filesystem::exists(not_ours));
}

TEST_F(SampleCacheOf, ThreadsShareIt) {
  SampleCache cache(folder_,
                    4000);  // of some of the samples, so that threads find, keep and remove them at once
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&cache, t] {
      for (int i = 0; i < 200; ++i) {
        const int n = (i * 7 + t) % 20;
        const std::string bytes(300, static_cast<char>('a' + n)), kept = found(cache, n, bytes.size());
        EXPECT_TRUE(kept.empty() || kept == bytes) << n;
        if (kept.empty()) keep(cache, n, bytes);
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST_F(SampleCacheOf, RefusesAFolderThatOthersMayChange) {
  const auto why = [](const std::filesystem::path& folder) -> std::string {
    try {
      SampleCache(folder, 1 << 20);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  };
  const auto cache = folder_ / "cache", sub = cache / "3f";
  const mode_t umask_was = umask(0);
  EXPECT_EQ(why(cache), "") << "it is made";
  SampleCache some(cache, 1 << 20);
  keep(some, 1, "abcd");
  umask(umask_was);
  EXPECT_EQ(why(cache), "") << "whatever the umask was";
  const auto with = [&](const std::filesystem::path& folder, unsigned mode) {
    std::filesystem::create_directories(folder);
    std::filesystem::permissions(folder, std::filesystem::perms(mode));
    const std::string out = why(cache);
    std::filesystem::permissions(folder, std::filesystem::perms(0755));
    return out;
  };
  for (const auto& folder : {folder_, cache, sub})
    EXPECT_THAT(with(folder, 0777),
                HasSubstr(folder.string() + " is writable by every user; run: chmod o-w"));
  EXPECT_THAT(with(cache, 01777), HasSubstr("does not exist, and every user may create it"));
  EXPECT_EQ(with(folder_, 01777), "") << "sticky";
  if (geteuid() != 0) GTEST_SKIP() << "only root may change owners of files";
  for (const auto& folder : {cache, sub}) {
    ASSERT_EQ(chown(folder.c_str(), 0, 12345), 0);
    EXPECT_THAT(with(folder, 0775), HasSubstr("is writable by its group; run: chmod g-w"));
    EXPECT_EQ(with(folder, 0755), "");
    ASSERT_EQ(chown(folder.c_str(), 12345, 0), 0);
    EXPECT_THAT(with(folder, 0755), HasSubstr("belongs to another user"));
    ASSERT_EQ(chown(folder.c_str(), 0, 0), 0);
  }
}

TEST_F(SampleCacheOf, AFolderMayVanish) {
  SampleCache cache(folder_, 1 << 20);
  keep(cache, 1, "abcd");
  std::filesystem::remove_all(folder_);
  EXPECT_EQ(found(cache, 1, 4), "");
  keep(cache, 1, "abcd");
  EXPECT_EQ(found(cache, 1, 4), "abcd");
}

TEST_F(SampleCacheOf, AFolderThatCannotBeMadeIsNoError) {
  std::ofstream(folder_ / "file") << "no folder";
  SampleCache cache(folder_ / "file", 1 << 20);
  for (int n = 0; n < 3; ++n) keep(cache, n, "abcd");
  EXPECT_EQ(found(cache, 1, 4), "");
}

// Bytes in memory whose reads are counted.
class CountedBytes final : public ByteSource {
 public:
  CountedBytes(std::string bytes, int& reads) : bytes_(std::move(bytes)), reads_(reads) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  Result<uint64_t> read(uint64_t offset, void* to, uint64_t size) const override {
    ++reads_;
    return bytes_.copy(static_cast<char*>(to), size, std::min<uint64_t>(offset, bytes_.size()));
  }

 private:
  std::string name_ = "counted", bytes_;
  int& reads_;
};

TEST_F(SampleCacheOf, AFileOfAStorageIsReadOnce) {
  const auto cache = std::make_shared<SampleCache>(folder_, 1 << 20);
  std::string stored = "0123456789";
  int reads = 0;
  const OpenBytes open = [&](std::string_view) -> Result<std::shared_ptr<const ByteSource>> {
    return std::shared_ptr<const ByteSource>(std::make_shared<CountedBytes>(stored, reads));
  };
  const auto read = [&](const SetFiles& files, uint64_t offset, uint64_t size) {
    std::string out(size, '\0');
    out.resize(or_throw(or_throw(files.open("s3://b/x.tar"))->read_kept(offset, out.data(), size)));
    return out;
  };
  const SetFiles first("s3://b", cache, open), second("s3://b", cache, open), local("/b", cache, open);
  EXPECT_EQ(read(first, 2, 3), "234");
  EXPECT_EQ(read(first, 8, 100), "89") << "to the end";
  EXPECT_EQ(reads, 2);
  EXPECT_EQ(first.counts().bytes, 5u);
  EXPECT_EQ(read(second, 2, 3), "234");
  EXPECT_EQ(read(second, 8, 2), "89");
  EXPECT_EQ(reads, 2);
  EXPECT_EQ(second.counts().bytes, 0u);
  EXPECT_EQ(second.counts().cache_hits, 2u);
  EXPECT_EQ(second.counts().cache_bytes, 5u);
  EXPECT_EQ(read(local, 2, 3), "234");
  EXPECT_EQ(reads, 3) << "files of this machine are not kept";
  char header = 0;
  for (int i = 0; i < 2; ++i) or_throw(or_throw(second.open("s3://b/x.tar"))->read(2, &header, 1));
  EXPECT_EQ(reads, 5) << "nor are bytes that are read again at little cost";
  stored = "abcdefghijk";
  EXPECT_EQ(read(second, 2, 3), "cde") << "a file of another size is another file";
}

}  // namespace
}  // namespace kinora::core
