// Tests that ranges of names that are listed at the same time give every name once, whatever the names are.
#include "plugins/jobs/listing/flat_listing.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::core {
namespace {

// A server of these names.
class NamesServer {
 public:
  explicit NamesServer(std::vector<std::string> names) : names_(std::move(names)) {
    std::sort(names_.begin(), names_.end());
  }
  std::vector<Listed> page(const std::string& after, uint64_t most) {
    ++requests;
    const int now = ++at_once;
    for (int seen = most_at_once; seen < now && !most_at_once.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(delay);
    --at_once;
    auto at = std::upper_bound(names_.begin(), names_.end(), after);
    std::vector<Listed> out;
    for (; at != names_.end() && out.size() < most; ++at) out.push_back({*at, false, at->size(), 1});
    if (out.size() > 1) {
      const std::lock_guard lock(mutex_);
      ++pages_by[std::this_thread::get_id()];
    }
    return out;
  }
  const std::vector<std::string>& names() const { return names_; }

  std::chrono::microseconds delay{100};
  std::atomic<int64_t> requests = 0;
  std::atomic<int> at_once = 0, most_at_once = 0;
  std::map<std::thread::id, int64_t> pages_by;

 private:
  std::vector<std::string> names_;
  std::mutex mutex_;
};

std::vector<std::string> listed_by(const PageOfFiles& page, uint64_t page_size, int threads) {
  std::vector<std::string> out;
  list_in_ranges(page, page_size, threads, [&](const std::vector<Listed>& files) {
    EXPECT_TRUE(std::ranges::is_sorted(files, {}, &Listed::name));
    for (const auto& file : files) out.push_back(file.name);
  });
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> listed_by(NamesServer& server, uint64_t page_size, int threads) {
  return listed_by([&](const auto& after, uint64_t most) { return server.page(after, most); }, page_size,
                   threads);
}

std::vector<std::string> numbered(int count, const std::string& prefix) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) out.push_back(fmt::format("{}{:09}.mp4", prefix, i));
  return out;
}

TEST(FlatListing, GivesEveryNameOnceInOrderWhateverTheNamesAre) {
  std::mt19937 draw(3);
  std::vector<std::string> random, crowded, letters,
      skewed = numbered(3000, "2024/a/very/deep/folder/of/one/day/");
  for (int i = 0; i < 3000; ++i) {
    random.push_back(fmt::format("{:08x}/{}", draw(), i));
    crowded.push_back(std::string(static_cast<size_t>(i % 200), '~') + std::to_string(i));
    letters.push_back(fmt::format("caf\xC3\xA9-\xE6\x98\xA0\xE5\x83\x8F-{}\xC3\xA9{}", i % 7, i));
  }
  for (int i = 0; i < 20; ++i) skewed.push_back(fmt::format("{}/x", static_cast<char>('A' + i)));
  for (const auto& names : {random, crowded, letters, skewed, numbered(3000, "v")})
    for (const int threads : {1, 4, 32}) {
      NamesServer server(names);
      EXPECT_EQ(listed_by(server, 20, threads), server.names()) << names.front() << " by " << threads;
      EXPECT_LT(server.requests, 4 * 3000 / 20 + 2000) << names.front() << " by " << threads;
    }
}

TEST(FlatListing, SharesTheWork) {
  for (const char* prefix : {"films/v", "\xE6\x98\xA0\xE5\x83\x8F/\xD0\xBA"}) {
    NamesServer server(numbered(6000, prefix));
    EXPECT_EQ(listed_by(server, 10, 16).size(), 6000u);
    EXPECT_GE(server.pages_by.size(), 8u) << "threads that listed " << prefix;
  }
}

#ifndef __SANITIZE_THREAD__  // under which the threads compute for longer than they wait
// Lists 400 pages, with names whose beginnings differ, or are the same.
TEST(FlatListing, IsFourTimesFasterByManyRequestsThanByOne) {
  std::mt19937 draw(5);
  std::vector<std::string> random;
  for (int i = 0; i < 8000; ++i) random.push_back(fmt::format("{:08x}-{}.mp4", draw(), i));
  for (const auto& names : {random, numbered(8000, "v")}) {
    const auto seconds_by = [&](int threads) {
      NamesServer server(names);
      server.delay = std::chrono::milliseconds(5);
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_EQ(listed_by(server, 20, threads), server.names());
      EXPECT_LE(server.most_at_once, threads);
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    const double by_one = seconds_by(1), by_many = seconds_by(32);
    EXPECT_GT(by_one, 4 * by_many) << by_one << " s and " << by_many << " s: " << names.front();
  }
}
#endif

TEST(FlatListing, OfFewFilesIsOneRequest) {
  NamesServer none({}), few(numbered(9, ""));
  EXPECT_TRUE(listed_by(none, 10, 32).empty());
  EXPECT_EQ(listed_by(few, 10, 32), few.names());
  EXPECT_EQ(none.requests + few.requests, 2);
  NamesServer full(numbered(10, ""));  // as many as a page has: there may be more
  EXPECT_EQ(listed_by(full, 10, 32), full.names());
}

TEST(FlatListing, EndsWithTheErrorOfAPage) {
  NamesServer server(numbered(2000, ""));
  std::atomic<int> left = 50;
  const auto page = [&](const std::string& after, uint64_t most) {
    if (--left < 0) throw Error(KINORA_ERROR_IO, "the server is gone");
    return server.page(after, most);
  };
  EXPECT_THROW(listed_by(page, 10, 16), Error);
  const auto refuse = [](const auto&) { throw Error(KINORA_ERROR_NO_MEMORY, "the disk is full"); };
  left = 1000;
  EXPECT_THROW(list_in_ranges(page, 10, 16, refuse), Error);
}

// 10^6 names that are computed from the name before.
TEST(FlatListing, OfAMillionFilesTakesAThousandPages) {
  constexpr int64_t kFiles = 1'000'000;
  std::atomic<int64_t> requests = 0;
  const auto page = [&](const std::string& after, uint64_t most) {
    ++requests;
    std::vector<Listed> out;
    // The first number whose nine digits, after a "v", are greater than `after`.
    int64_t low = 0, high = kFiles;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      (fmt::format("v{:09}", middle) > after ? high : low) =
          fmt::format("v{:09}", middle) > after ? middle : middle + 1;
    }
    for (; low < kFiles && out.size() < most; ++low) out.push_back({fmt::format("v{:09}", low), false, 1, 1});
    return out;
  };
  const auto found = listed_by(page, 1000, 32);
  ASSERT_EQ(found.size(), static_cast<size_t>(kFiles));
  for (int64_t i = 0; i < kFiles; i += 997)
    ASSERT_EQ(found[static_cast<size_t>(i)], fmt::format("v{:09}", i));
  EXPECT_LT(requests, 6000);
}

}  // namespace
}  // namespace kinora::core
