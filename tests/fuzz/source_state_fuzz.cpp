// Any bytes as a state of source/webdataset: refused, and the source is where it was; or the samples after one
// of the data set. Also with a hash that fits the bytes.
#include <cstdlib>
#include <string>
#include <vector>

#include "kinora/testing.hpp"
#include "plugins/sources/webdataset/webdataset_source.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/support/tar_bytes.hpp"

namespace {

using kinora::webdataset::WebDatasetSource;
const kinora::testing::Run run;

std::string rest_of(WebDatasetSource& source) {
  std::string keys;
  while (const auto sample = source.next(run)) keys += sample->key();
  return keys;
}

void check(const std::string& folder, std::string_view state) {
  const std::string all = "abc";
  WebDatasetSource source({});
  source.open(folder, 0, 1, run);
  bool refused = false;
  try {
    source.restore(state);
  } catch (const kinora::Error& e) {
    refused = true;
    if (e.code() != KINORA_ERROR_INVALID || std::string_view(e.what()).empty()) std::abort();
  }
  const std::string rest = rest_of(source);
  if (refused ? rest != all : !all.ends_with(rest)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kinora::fuzz::Folder folder;
  static const bool prepared = [] {
    kinora::testing::start();
    const std::string tar =
        kinora::test::tar_bytes({{"a.txt", "1"}, {"a.json", "2"}, {"b.txt", "3"}, {"c.txt", "4"}});
    folder.write("s.tar", reinterpret_cast<const uint8_t*>(tar.data()), tar.size());
    return tar.size() == 5120;  // as in the corpus
  }();
  if (!prepared) std::abort();
  const std::string_view state(reinterpret_cast<const char*>(data), size);
  check(folder.path().string(), state);
  const size_t head = std::string_view("kinora.webdataset/1 ").size(), space = state.find(' ', head);
  if (space == state.npos) return 0;
  const std::string_view rest = state.substr(space + 1);
  check(folder.path().string(), std::string(state.substr(0, head)) +
                                    std::to_string(kinora::webdataset::hash_of(rest)) + " " +
                                    std::string(rest));
  return 0;
}
