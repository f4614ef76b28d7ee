#include "plugins/jobs/curation/plain_tar.hpp"

#include "plugins/jobs/curation/webdataset_testing.hpp"

namespace kinora::core {
namespace {

using namespace webdataset_testing;

// The sample that libarchive's reader makes of the bytes, or nothing.
std::optional<WebDatasetSample> by_libarchive(const std::string& bytes) {
  try {
    return WebDatasetReader(source(bytes), {.need_end = false}).next();
  } catch (const Error&) {
    return std::nullopt;
  }
}

TEST(PlainSample, IsLibarchivesOfPlainMembers) {
  const std::string far = std::string(90, 'd') + "/" + std::string(60, 'k');
  const std::vector<Files> samples{{{"a.txt", "1"}, {"a.json", "{}"}},
                                   {{far + ".mp4", std::string(3000, 'x')}, {far + ".txt", ""}},
                                   {{"d.e/a.b.c", std::string(512, 'y')}},
                                   {{"__notes__/a.txt", "skipped"}, {"a.txt", "1"}}};
  for (const auto& files : samples) {
    std::string bytes = tar(files);
    bytes.resize(bytes.size() - 1024);  // without the end of the archive
    EXPECT_EQ(shown(plain(bytes)), shown(by_libarchive(bytes)));
    EXPECT_NE(shown(plain(bytes)), "nothing");
  }
}

TEST(PlainSample, LeavesTheRestToLibarchive) {
  const auto of = [](const Files& files, const std::function<void(struct archive*)>& format = test::ustar) {
    std::string bytes = tar(files, format);
    return bytes.substr(0, bytes.size() - 1024);
  };
  EXPECT_FALSE(plain(of({{"a.txt", "1"}, {"b.txt", "2"}})));  // two keys
  EXPECT_FALSE(plain(of({{"a.txt", "1"}, {"a.txt", "2"}})));  // a field twice
  EXPECT_FALSE(plain(of({{"d/", ""}})));                      // a folder
  EXPECT_FALSE(plain(of({{"caf\xC3\xA9.txt", "1"}})));        // not ASCII
  EXPECT_FALSE(plain(of({{std::string(300, 'k') + ".txt", "1"}}, archive_write_set_format_gnutar)));
  EXPECT_FALSE(plain(""));
  EXPECT_FALSE(plain(std::string(512, '\0')));
}

TEST(PlainSample, ReadsHeadersAndOneFieldAlone) {
  std::string bytes = tar({{"a.mp4", std::string(5000, 'x')}, {"a.json", "{\"n\": 1}"}, {"a.txt", "sea"}});
  bytes.resize(bytes.size() - 1024);
  uint64_t taken = 0;
  const ReadBytes read = [&](uint64_t offset, void* to, uint64_t size) {
    const uint64_t n = bytes.copy(static_cast<char*>(to), size, std::min<uint64_t>(offset, bytes.size()));
    taken += n;
    return n;
  };
  EXPECT_EQ(shown(plain_sample(read, bytes.size(), "json")), "a|mp4=|json={\"n\": 1}|txt=");
  EXPECT_EQ(taken, 3 * 512 + 8u);
  EXPECT_EQ(shown(plain_sample(read, bytes.size(), "npy")), "a|mp4=|json=|txt=");
  const uint64_t whole = bytes.size();
  bytes.resize(700);  // the index promises more than there is
  EXPECT_FALSE(plain_sample(read, whole, "mp4"));
  EXPECT_FALSE(plain_sample(read, whole, "txt"));
}

// Every byte of the headers changed: the sample is libarchive's, or it is left to libarchive.
TEST(PlainSample, OfDamagedHeadersIsNeverAnother) {
  std::string whole = tar({{"a.txt", "12345"}, {"a.json", "{}"}});
  whole.resize(whole.size() - 1024);
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char to : {'\0', '7', ' ', '\x80'}) {
      std::string bytes = whole;
      bytes[at] = to;
      const auto found = plain(bytes);
      EXPECT_TRUE(!found || shown(found) == shown(by_libarchive(bytes))) << at;
    }
}

}  // namespace
}  // namespace kinora::core
