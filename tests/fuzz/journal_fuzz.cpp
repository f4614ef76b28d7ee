// Any bytes as the journal of a curate job, unchanged and with correct checksums on every line: a record to
// resume from, or one that starts over; files outside the job's folder are never touched.
#include <cstdlib>

#include "plugins/jobs/curation/record.hpp"
#include "core/base/log.hpp"
#include "core/base/digest.hpp"
#include "kinora/error.hpp"
#include "tests/fuzz/files.hpp"

namespace {

namespace core = kinora::core;

const std::vector<core::Input>& inputs() {
  static const std::vector<core::Input> all = [] {
    std::vector<core::Input> out(2);
    out[0].key = "a", out[0].url = "/films/a.mp4";
    out[1].key = "b", out[1].url = "/films/b.mp4";
    return out;
  }();
  return all;
}

void replay(const kinora::fuzz::Folder& folder, const std::string& text) {
  folder.write("journal.jsonl", reinterpret_cast<const uint8_t*>(text.data()), text.size());
  try {
    core::Record record(folder.path(), inputs(), {"base", true});
    for (const auto& input : inputs()) {
      record.begin(input);
      if (!record.has_ended(input))
        record.end({{"key", input.key}, {"end", "failed"}}, false, core::json::object());
    }
    record.each([](const core::json& line, bool, const core::json&) {
      line.dump(-1, ' ', false, core::json::error_handler_t::replace);
    });
    record.settle();
  } catch (const kinora::Error& e) {
    if (*e.what() == 0) std::abort();
  }
}

// Wraps every line as the entry of a line of the journal.
std::string with_sums(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string entry = text.substr(at, end - at);
    out += "{\"sum\":\"" + core::sha256(entry).substr(0, 16) + "\",\"entry\":" + entry + "}\n";
    at = end + 1;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = static_cast<bool>(core::start_log("error"));
  static_cast<void>(quiet);
  static const kinora::fuzz::Folder folder;
  std::filesystem::create_directories(folder.path() / "data");
  const std::string text(reinterpret_cast<const char*>(data), size);
  replay(folder, text);
  replay(folder, with_sums(text));
  return 0;
}
