#include "plugins/storage/file/file_storage.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "plugins/storage/file/local_path.hpp"

namespace kinora::file {
namespace {

namespace fs = std::filesystem;

class FileStorageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kinora-file-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string path(const std::string& name) const { return folder + "/" + name; }
  void write(const std::string& name, std::string_view bytes) {
    auto w = storage.begin(path(name));
    w->append(bytes.data(), bytes.size());
    w->commit();
  }
  std::string read(const std::string& name) {
    auto r = storage.open(path(name));
    std::string out(r->size(), 0);
    EXPECT_EQ(r->read(0, out.data(), out.size()), out.size());
    return out;
  }
  std::map<std::string, uint64_t> listing(const std::string& name = "") {
    std::map<std::string, uint64_t> out;
    storage.list(path(name), [&](const kinora_entry& e) {
      out[std::string(view(e.name)) + (e.folder ? "/" : "")] = e.size;
      return KINORA_OK;
    });
    return out;
  }
  template <class F>
  static Error error_of(F&& f) {
    try {
      f();
    } catch (const Error& e) {
      return e;
    }
    return {KINORA_OK, "no error"};
  }
  std::string folder;
  FileStorage storage{FileStorage::Options{}};
};

TEST_F(FileStorageTest, ReadsWhatItWroteAtAnyOffset) {
  std::string bytes(100'000, 0);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  write("a/b/c.bin", bytes);
  auto r = storage.open("file://" + path("a/b/c.bin"));
  EXPECT_EQ(r->size(), bytes.size());
  for (uint64_t at : {0u, 1u, 4095u, 99'990u, 100'000u, 200'000u}) {
    std::string got(64, 'x');
    const uint64_t n = r->read(at, got.data(), got.size());
    ASSERT_EQ(n, at >= bytes.size() ? 0 : std::min<uint64_t>(64, bytes.size() - at));
    EXPECT_EQ(got.substr(0, n), at < bytes.size() ? bytes.substr(at, n) : "");
  }
  char none;
  EXPECT_EQ(r->read(UINT64_MAX, &none, 1), 0u);
}

TEST_F(FileStorageTest, ShowsAFileOnlyWhenItIsWhole) {
  write("a", "old");
  {
    auto w = storage.begin(path("a"));
    w->append("new", 3);
    EXPECT_EQ(read("a"), "old");
    EXPECT_EQ(listing(), (std::map<std::string, uint64_t>{{"a", 3}}));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2)
        << "the temporary file is in the same folder";
  }
  EXPECT_EQ(read("a"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "an aborted writer leaves nothing";
  write("a", "newer");
  EXPECT_EQ(read("a"), "newer");
}

// A process killed at any point of writing leaves the old file or the new one, never a partial file.
TEST_F(FileStorageTest, SurvivesAKilledWriter) {
  const std::string old_bytes(1 << 20, 'o'), new_bytes(1 << 20, 'n');
  for (int round = 0; round < 25; ++round) {
    write("a", old_bytes);
    const pid_t child = ::fork();
    if (child == 0) {
      auto w = storage.begin(path("a"));
      for (int i = 0; i < 256; ++i) w->append(new_bytes.data(), 4096);
      w->commit();
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(round * 200));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string now = read("a");
    EXPECT_TRUE(now == old_bytes || now == new_bytes);
    EXPECT_EQ(listing().size(), 1u) << "leftovers are not listed";
  }
}

TEST_F(FileStorageTest, OfManyWritersOfOneNameOneWins) {
  std::vector<std::thread> threads;
  for (char c = 'a'; c < 'i'; ++c)
    threads.emplace_back([&, c] {
      for (int i = 0; i < 20; ++i) write("deep/down/x", std::string(10'000, c));
    });
  for (auto& t : threads) t.join();
  const std::string now = read("deep/down/x");
  EXPECT_EQ(now, std::string(10'000, now[0]));
  EXPECT_EQ(std::distance(fs::directory_iterator(path("deep/down")), {}), 1);
}

TEST_F(FileStorageTest, ListsFilesAndFoldersAndStopsWhenTold) {
  write("a", "1");
  write("b c", "22");
  write("sub/x", "333");
  EXPECT_EQ(listing(), (std::map<std::string, uint64_t>{{"a", 1}, {"b c", 2}, {"sub/", 0}}));
  int seen = 0;
  EXPECT_EQ(
      storage.list(folder, [&](const kinora_entry&) { return ++seen == 2 ? KINORA_SIGNAL_END : KINORA_OK; }),
      KINORA_SIGNAL_END);
  EXPECT_EQ(seen, 2);
}

// A caller that took it for deleted would remove everything made of it.
TEST_F(FileStorageTest, ListsWhatCannotBeLookedAtNow) {
  write("real/a.mp4", "xyz");
  fs::create_symlink(path("real/a.mp4"), path("seen.mp4"));
  fs::create_symlink(path("unmounted/a.mp4"), path("unseen.mp4"));
  fs::create_symlink(path("circle.mp4"), path("circle.mp4"));
  EXPECT_EQ(listing(), (std::map<std::string, uint64_t>{
                           {"circle.mp4", 0}, {"real/", 0}, {"seen.mp4", 3}, {"unseen.mp4", 0}}));
  int64_t modified = -1;
  storage.list(path(""), [&](const kinora_entry& e) {
    if (view(e.name) == "unseen.mp4") modified = e.modified;
    return KINORA_OK;
  });
  EXPECT_EQ(modified, 0) << "not known";
}

// Opening it would wait for a writer.
TEST_F(FileStorageTest, OfAPipeSaysAtOnceThatItIsNoFile) {
  ASSERT_EQ(::mkfifo(path("a.mp4").c_str(), 0600), 0);
  EXPECT_NE(std::string(error_of([&] { storage.open(path("a.mp4")); }).what()).find("pipe or device"),
            std::string::npos);
}

TEST_F(FileStorageTest, RemovesFiles) {
  write("a", "1");
  storage.remove(path("a"));
  EXPECT_TRUE(listing().empty());
  EXPECT_EQ(error_of([&] { storage.remove(path("a")); }).code(), KINORA_ERROR_NOT_FOUND);
}

TEST_F(FileStorageTest, SaysWhatIsWrongAndWhatToDo) {
  write("file", "1");
  const Error missing = error_of([&] { storage.open(path("no")); });
  EXPECT_EQ(missing.code(), KINORA_ERROR_NOT_FOUND);
  EXPECT_EQ(missing.what(), path("no") + ": cannot be read: no such file or folder; check the path");
  EXPECT_EQ(error_of([&] { storage.open(folder); }).code(), KINORA_ERROR_INVALID);
  EXPECT_EQ(error_of([&] { storage.open("/dev/null"); }).code(), KINORA_ERROR_INVALID);
  EXPECT_EQ(error_of([&] { storage.begin(path("file/x")); }).code(), KINORA_ERROR_INVALID);
  EXPECT_EQ(error_of([&] { storage.begin(path("x/")); }).code(), KINORA_ERROR_INVALID);
  EXPECT_EQ(error_of([&] { storage.begin(path(std::string(300, 'x')))->commit(); }).code(),
            KINORA_ERROR_INVALID);
  EXPECT_EQ(error_of([&] { storage.list(path("no"), [](const auto&) { return 0; }); }).code(),
            KINORA_ERROR_NOT_FOUND);
  for (const char* end : {"", "/", "//"})
    EXPECT_EQ(
        std::string(error_of([&] { storage.list(path("no") + end, [](const auto&) { return 0; }); }).what())
            .find(path("no") + "/: "),
        0u)
        << end;
  const Error full = system_error(path("file"), "cannot be written", ENOSPC);
  EXPECT_EQ(full.code(), KINORA_ERROR_NO_MEMORY);
  EXPECT_NE(std::string(full.what()).find("the device of '" + folder + "' is full"), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

// Limits on file sizes replace a full disk where no small device can be mounted: both cut a write short.
TEST_F(FileStorageTest, AFullDeviceIsNamedAndLeavesNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Error e = error_of([&] { write("big", std::string(200'000, 'x')); });
    const bool clean = std::distance(fs::directory_iterator(folder), {}) == 0;
    ::_exit(e.code() == KINORA_ERROR_INVALID && clean ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  if (::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=128k") != 0)
    GTEST_SKIP() << "no right to mount a small device";
  const Error e = error_of([&] { write("sub/big", std::string(1'000'000, 'x')); });
  const auto left = std::distance(fs::directory_iterator(path("sub")), {});
  ::umount2(folder.c_str(), MNT_DETACH);
  EXPECT_EQ(e.code(), KINORA_ERROR_NO_MEMORY) << e.what();
  EXPECT_NE(std::string(e.what()).find("the device of '" + path("sub") + "' is full"), std::string::npos)
      << e.what();
  EXPECT_EQ(left, 0);
}

TEST_F(FileStorageTest, AFolderWithoutPermissionIsNamed) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::chmod(folder.c_str(), 0555);
    if (::getuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    const Error e = error_of([&] { write("a", "1"); });
    ::_exit(e.code() == KINORA_ERROR_INVALID &&
                    std::string(e.what()).find("permission is missing in '" + folder) != std::string::npos
                ? 0
                : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  ::chmod(folder.c_str(), 0755);
  EXPECT_EQ(status, 0);
}

TEST(LocalPath, ReadsFileUris) {
  EXPECT_EQ(local_path("a b%20"), "a b%20");
  EXPECT_EQ(local_path("file:///a%20b%C3%A9"), "/a b\xC3\xA9");
  EXPECT_EQ(local_path("file://localhost/x"), "/x");
  for (const char* bad : {"", "file://server/x", "file:///a%2", "file:///a%zz", "file:///a%00"})
    EXPECT_THROW(local_path(bad), Error) << bad;
}

}  // namespace
}  // namespace kinora::file
