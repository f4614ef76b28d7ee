// A record of a curate job with changed bytes, and one whose texts are any bytes: a record to resume from, or
// an error.
#include <cstdlib>
#include <fstream>
#include <span>

#include "core/base/log.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curation/database.hpp"
#include "plugins/jobs/curation/record.hpp"
#include "tests/fuzz/files.hpp"

namespace {

namespace core = kinora::core;

void resume(const kinora::fuzz::Folder& folder) {
  core::InputRows inputs;
  for (const char* url : {"/videos/a.mp4", "/videos/b.mp4"}) inputs.add({.url = url});
  try {
    core::read_record(folder.path(), [](int64_t, const std::string&) {});
    core::Record record(folder.path(), inputs, {.base = "base"});
    inputs.each([&](size_t, const core::Input& input) {
      if (!record.has_ended(input))
        record.end({{"key", input.key}, {"end", "failed"}}, {0, {input.key}, {}}, core::json::object());
    });
    record.each([](const core::json& line, bool, const core::json&) {
      static_cast<void>(line.dump(-1, ' ', false, core::json::error_handler_t::replace));
    });
  } catch (const kinora::Error& e) {
    if (*e.what() == 0) std::abort();
  }
}

// A whole record whose outcomes, keys and file names are these bytes.
void write_record(const kinora::fuzz::Folder& folder, const std::string& text) {
  core::InputRows inputs;
  inputs.add({.url = "/videos/a.mp4"});
  core::Record(folder.path(), inputs, {.base = "base"});
  core::Database db(folder.path() / core::kRecordFile, core::Database::Access::write);
  db.run(
      "INSERT OR REPLACE INTO outcome (id, input, key, made, failed, parent, parents, line) VALUES (1, 1, ?, "
      "1, 0, ?, 1, ?)",
      text, text, text);
  db.run("INSERT OR REPLACE INTO file VALUES (?, 0, 1)", text);
}

// Three bytes say where in the file, the fourth what is written there.
void change(const std::filesystem::path& file, std::span<const uint8_t> data) {
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto size = static_cast<uint32_t>(std::filesystem::file_size(file));
  for (size_t i = 0; i + 4 <= data.size() && i < 64; i += 4) {
    out.seekp((data[i] << 16 | data[i + 1] << 8 | data[i + 2]) % size);
    out.put(static_cast<char>(data[i + 3]));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = static_cast<bool>(core::start_log("off"));
  static_cast<void>(quiet);
  static const kinora::fuzz::Folder folder;
  std::filesystem::create_directories(folder.path() / "data");
  core::remove_record(folder.path());
  write_record(folder, std::string(reinterpret_cast<const char*>(data), size));
  resume(folder);
  change(folder.path() / core::kRecordFile, {data, size});
  resume(folder);
  core::remove_record(folder.path());
  return 0;
}
