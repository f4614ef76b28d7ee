// An append-only file of JSON lines, each with a checksum:
//
//   {"sum":"0123456789abcdef","entry":{...}}      sum: the first 8 bytes of the SHA-256 of the entry's text
//
// An entry survives a kill at any moment once append() has returned. Opening the file cuts off an unfinished
// last line, and everything from the first line with a wrong checksum on.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

using nlohmann::json;

// [owner-thread], as a whole.
class Journal {
 public:
  // Position of an entry's text.
  struct Place {
    uint64_t offset = 0, size = 0;
  };

  // Opens or creates the file and passes its entries to `each` in order. looks: opens read-only; the file may be
  // missing. Throws kinora::Error.
  Journal(std::filesystem::path file, const std::function<void(const json& entry, Place)>& each, bool looks = false);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // durable: it survives a power cut too. A write that fails (a full disk) leaves the file as it was, and
  // throws kinora::Error.
  Place append(const json& entry, bool durable);
  // Throws Error(KINORA_DATA) if another process has changed the file meanwhile.
  json read(Place) const;
  void clear();
  // Atomically replaces all entries by those that `fill` writes: a kill leaves the old file or the new one.
  // `fill` may still read(); after that, earlier places are invalid.
  using Write = std::function<void(const json&)>;
  void rewrite(const std::function<void(const Write&)>& fill);

 private:
  void open(int flags);
  void replay(const std::function<void(const json&, Place)>& each, bool looks);
  [[noreturn]] void fail(const char* doing, int error) const;
  [[noreturn]] void fail_at(Place place) const;
  std::filesystem::path file_;
  int descriptor_ = -1;
  uint64_t end_ = 0;
};

}  // namespace kinora::core
