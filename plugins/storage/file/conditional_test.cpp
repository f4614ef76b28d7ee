// Conditional writes and the flat listing of files, by threads and processes at once.
#include <atomic>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "plugins/storage/file/file_storage.hpp"

namespace kinora::file {
namespace {

namespace fs = std::filesystem;

class ConditionalFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kinora-conditional-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string path(const std::string& name) const { return folder + "/" + name; }
  std::vector<std::string> names(const std::string& after = "", uint64_t most = 1000) {
    std::vector<std::string> out;
    storage.list_from(folder, after, most, [&](const kinora_entry& e) {
      EXPECT_EQ(e.folder, 0u);
      out.emplace_back(view(e.name));
      return KINORA_OK;
    });
    return out;
  }
  // Adds 1 to the number in a file, `times` times, against all others.
  void count(int times) {
    for (int done = 0; done < times;) try {
        const SmallObject now = storage.read_small(path("number"));
        const std::string next = std::to_string(std::stoi(now.bytes) + 1);
        if (storage.put_if(path("number"), next, now.tag)) ++done;
      } catch (const Error& e) {
        if (e.code() != KINORA_ERROR_IO) throw;  // others had the lock for a second
      }
  }
  std::string folder;
  FileStorage storage{FileStorage::Options{}};
};

TEST_F(ConditionalFiles, WritesOnlyOverWhatTheCallerHasRead) {
  const auto first = storage.put_if(path("deep/a"), "one", "");
  ASSERT_TRUE(first);
  EXPECT_FALSE(storage.put_if(path("deep/a"), "two", "")) << "it exists";
  const auto second = storage.put_if(path("deep/a"), "two", *first);
  ASSERT_TRUE(second);
  EXPECT_NE(*first, *second);
  EXPECT_FALSE(storage.put_if(path("deep/a"), "three", *first)) << "an old tag";
  const SmallObject now = storage.read_small(path("deep/a"));
  EXPECT_EQ(now.bytes, "two");
  EXPECT_EQ(now.tag, *second);
  EXPECT_FALSE(storage.remove_if(path("deep/a"), *first));
  EXPECT_TRUE(storage.remove_if(path("deep/a"), *second));
  EXPECT_FALSE(storage.remove_if(path("deep/a"), *second)) << "there is none";
  EXPECT_FALSE(storage.put_if(path("deep/a"), "four", *second)) << "there is none";
  EXPECT_TRUE(fs::is_empty(path("deep"))) << "no temporary file and no lock stays";
}

TEST_F(ConditionalFiles, OfManyCreatorsOneWins) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> winners{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        if (storage.put_if(path("of" + std::to_string(round)), std::to_string(t), "")) ++winners;
      });
    for (auto& t : threads) t.join();
    EXPECT_EQ(winners, 1);
  }
}

// Without the comparison under a lock some additions would be lost.
TEST_F(ConditionalFiles, LosesNoUpdateOfThreadsAndProcesses) {
  ASSERT_TRUE(storage.put_if(path("number"), "0", ""));
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      count(20);
      ::_exit(0);
    }
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { count(20); });
  for (auto& t : threads) t.join();
  for (const pid_t child : children) {
    int status = 1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(storage.read_small(path("number")).bytes, "120");
}

// The owner of the lock may be a process that stands still.
TEST_F(ConditionalFiles, SaysThatAnotherHoldsTheLockInsteadOfWaiting) {
  const auto tag = storage.put_if(path("a"), "one", "");
  ASSERT_TRUE(tag);
  const int held = ::open(path("a").c_str(), O_RDWR);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  try {
    storage.put_if(path("a"), "two", *tag);
    ADD_FAILURE() << "it was written";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_IO);
  }
  ::close(held);
  EXPECT_TRUE(storage.put_if(path("a"), "two", *tag));
}

TEST_F(ConditionalFiles, RefusesWhatIsNotSmall) {
  const std::string large(KINORA_STORAGE_SMALL + 1, 'x');
  EXPECT_THROW(storage.put_if(path("a"), large, ""), Error);
  std::ofstream(path("a")) << large;
  EXPECT_THROW(storage.read_small(path("a")), Error);
  EXPECT_THROW(storage.read_small(path("none")), Error);
  EXPECT_EQ(storage.put_if(path("b"), large.substr(1), "").has_value(), true);
  EXPECT_EQ(storage.read_small(path("b")).bytes.size(), size_t{KINORA_STORAGE_SMALL});
}

TEST_F(ConditionalFiles, ListsAllNamesInTheOrderOfTheirBytesFromAnyNameOn) {
  // '-' sorts before '/', which sorts before '0'.
  const std::vector<std::string> all{"a-b", "a/x", "a/y/z", "a/z", "a0", "b", "c/d/e"};
  for (const auto& name : all) ASSERT_TRUE(storage.put_if(path(name), name, ""));
  std::ofstream(path(".kinora-tmp-1-1")) << "left by a killed writer";
  fs::create_directory_symlink(folder, path("c/loop"));
  fs::create_directory(path("empty"));
  EXPECT_EQ(names(), all);
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(names(all[i]), std::vector(all.begin() + static_cast<ptrdiff_t>(i) + 1, all.end())) << all[i];
  EXPECT_EQ(names("a/"), std::vector(all.begin() + 1, all.end()));
  EXPECT_EQ(names("a/y"), std::vector(all.begin() + 2, all.end()));
  std::vector<std::string> paged;
  for (std::vector<std::string> page = names("", 2); !page.empty(); page = names(paged.back(), 2))
    paged.insert(paged.end(), page.begin(), page.end());
  EXPECT_EQ(paged, all);
}

TEST_F(ConditionalFiles, AreInTheTableOfTheAbi) {
  const auto& api = *static_cast<const kinora_storage*>(Storage::api<FileStorage>());
  void* const files = static_cast<Storage*>(&storage);
  std::string bytes, tag;
  const auto into = [](std::string& text) {
    return kinora_sink{&text, [](void* self, const void* data, uint64_t size) {
                         static_cast<std::string*>(self)->append(static_cast<const char*>(data), size);
                       }};
  };
  const kinora_sink to_bytes = into(bytes), to_tag = into(tag);
  const std::string at = path("a");
  EXPECT_EQ(api.put_if(files, str(at), {"one", 3}, str(""), &to_tag), KINORA_OK);
  const std::string made = std::exchange(tag, "");
  EXPECT_EQ(api.put_if(files, str(at), {"two", 3}, str(""), &to_tag), KINORA_SIGNAL_CONFLICT);
  EXPECT_EQ(tag, "");
  EXPECT_EQ(api.read_small(files, str(at), &to_bytes, &to_tag), KINORA_OK);
  EXPECT_EQ(bytes, "one");
  EXPECT_EQ(tag, made);
  EXPECT_EQ(api.remove_if(files, str(at), str("other")), KINORA_SIGNAL_CONFLICT);
  EXPECT_EQ(api.remove_if(files, str(at), str(made)), KINORA_OK);
}

}  // namespace
}  // namespace kinora::file
